"""A round of deliveries: events to messages, messages to receivers.

A process can die between sending a message and recording it. The message is then sent again, with
the same `webhook-id`, so it arrives at least once.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.settings import Settings
from adaptlab_services.webhooks import claims
from adaptlab_services.webhooks.addresses import AddressRules
from adaptlab_services.webhooks.claims import ClaimedDelivery
from adaptlab_services.webhooks.messages import Messages
from adaptlab_services.webhooks.relay import relay
from adaptlab_services.webhooks.sending import Outcome, Request, send
from adaptlab_services.webhooks.signing import signed_headers

USER_AGENT = "adaptlab-webhooks"
UNWRITTEN = "The message could not be written. See the logs of the API and the workers."
Sessions = sessionmaker[Session]

log = logging.getLogger(__name__)


class Deliveries:
    """Sends what is due; any number of processes may do so at once."""

    def __init__(self, sessions: Sessions, settings: Settings) -> None:
        self._sessions = sessions
        self._rules = AddressRules.of(settings)
        self._messages = Messages(sessions, settings.public_url)

    def round(self) -> int:
        """Turn events into deliveries and send those that are due, once.

        Returns the number of messages that were sent or failed.
        """
        while self._relay():
            pass
        with self._sessions.begin() as session:
            claimed = claims.claim(session)
        if claimed:
            asyncio.run(self._send_all(claimed))
        return len(claimed)

    def forget_old(self) -> int:
        """Delete old deliveries; return their number."""
        with self._sessions.begin() as session:
            return claims.forget_old(session)

    def _relay(self) -> int:
        with self._sessions.begin() as session:
            return relay(session)

    async def _send_all(self, claimed: Sequence[ClaimedDelivery]) -> None:
        async with asyncio.TaskGroup() as group:
            for delivery in claimed:
                group.create_task(self._send(delivery))

    async def _send(self, delivery: ClaimedDelivery) -> None:
        outcome = await self._outcome(delivery)
        await asyncio.to_thread(self._record, delivery, outcome)

    async def _outcome(self, delivery: ClaimedDelivery) -> Outcome:
        try:
            body = await asyncio.to_thread(self._messages.body, delivery)
        except Exception:
            log.exception("the message %s could not be written", delivery.id)
            return Outcome(None, UNWRITTEN)
        headers = {"content-type": "application/json", "user-agent": USER_AGENT}
        signed = signed_headers(delivery.secret, delivery.id, datetime.now(UTC), body)
        return await send(Request(delivery.url, headers | signed, body), self._rules)

    def _record(self, delivery: ClaimedDelivery, outcome: Outcome) -> None:
        if outcome.error is not None:
            log.warning(
                "webhook %d: attempt %d of message %s failed: %s",
                delivery.webhook_id, delivery.number, delivery.id, outcome.error,
            )  # fmt: skip
        with self._sessions.begin() as session:
            claims.record(session, delivery, outcome)
