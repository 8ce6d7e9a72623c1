"""A round of deliveries: events to messages, messages to receivers.

A process can die between sending a message and recording it. The message is then sent again, with
the same `webhook-id`, so it arrives at least once.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.limits.addresses import AddressRules
from adaptlab_services.settings import Settings
from adaptlab_services.webhooks import due_deliveries
from adaptlab_services.webhooks.due_deliveries import ClaimedDelivery
from adaptlab_services.webhooks.messages import Messages
from adaptlab_services.webhooks.relay import relay
from adaptlab_services.webhooks.sending import DeliveryOutcome, WebhookRequest, send
from adaptlab_services.webhooks.signing import signed_headers

USER_AGENT = "adaptlab-webhooks"
UNWRITTEN = "The message could not be written. See the logs of the API and the workers."
WRITERS = 4
LOOKUPS = 64
ROUND_SECONDS = 0.25
"""Time in which a fast receiver answers; the next round begins after it."""
Sessions = sessionmaker[Session]
T = TypeVar("T")

log = logging.getLogger(__name__)


class Deliveries:
    """Sends what is due; any number of processes may do so at once.

    Receivers that do not answer keep only their own project waiting: a round does not wait for
    them, and of each project only some messages are in flight.
    """

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self._sessions = sessions
        self._rules = AddressRules.of(settings)
        self._messages = Messages(sessions, settings.public_url)
        self._writers = ThreadPoolExecutor(WRITERS, "webhook")
        self._lookups = ThreadPoolExecutor(LOOKUPS, "webhook name")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_flight: dict[Future[None], int] = {}

    def round(self) -> int:
        """Turn events into deliveries and send those that are due, once.

        Returns the number of messages that were being sent in this round.
        """
        while self._relay():
            pass
        self._forget_sent()
        with self._sessions.begin() as session:
            claimed = due_deliveries.claim(session, Counter(self._in_flight.values()))
        for delivery in claimed:
            task = asyncio.run_coroutine_threadsafe(self._send(delivery), self._opened())
            self._in_flight[task] = delivery.project_id
        sending = len(self._in_flight)
        wait(self._in_flight, ROUND_SECONDS)
        self._forget_sent()
        return sending

    def _opened(self) -> asyncio.AbstractEventLoop:
        """Return the loop of events in which messages are sent, in its own thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # For look-ups of names, which cannot be stopped: others must not wait for them.
            self._loop.set_default_executor(self._lookups)
            threading.Thread(target=_run, args=(self._loop,), name="webhooks", daemon=True).start()
        return self._loop

    def _forget_sent(self) -> None:
        for sending in [one for one in self._in_flight if one.done()]:
            del self._in_flight[sending]
            if (error := sending.exception()) is not None:
                log.error("a message could not be sent or recorded", exc_info=error)

    def close(self) -> None:
        """Send nothing more; what is being sent is sent again by another process."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        for threads in (self._writers, self._lookups):
            threads.shutdown(wait=False, cancel_futures=True)

    def forget_old(self) -> int:
        """Delete old deliveries; return their number."""
        with self._sessions.begin() as session:
            return due_deliveries.forget_old(session)

    def _relay(self) -> int:
        with self._sessions.begin() as session:
            return relay(session)

    async def _send(self, delivery: ClaimedDelivery) -> None:
        outcome = await self._outcome(delivery)
        await self._apart(partial(self._record, delivery, outcome))

    async def _apart(self, work: Callable[[], T]) -> T:
        """Do work that waits for the database, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writers, work)

    async def _outcome(self, delivery: ClaimedDelivery) -> DeliveryOutcome:
        try:
            body = await self._apart(partial(self._messages.body, delivery))
        except Exception:
            log.exception("the message %s could not be written", delivery.id)
            return DeliveryOutcome(None, UNWRITTEN)
        headers = {"content-type": "application/json", "user-agent": USER_AGENT}
        signed = signed_headers(delivery.secret, delivery.id, datetime.now(UTC), body)
        return await send(WebhookRequest(delivery.url, headers | signed, body), self._rules)

    def _record(self, delivery: ClaimedDelivery, outcome: DeliveryOutcome) -> None:
        if outcome.error is not None:
            log.warning(
                "webhook %d: attempt %d of message %s failed: %s",
                delivery.webhook_id, delivery.number, delivery.id, outcome.error,
            )  # fmt: skip
        with self._sessions.begin() as session:
            due_deliveries.record(session, delivery, outcome)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop of events until it is stopped; end what it was doing."""
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_all())
    finally:
        loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
