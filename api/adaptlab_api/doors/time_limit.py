"""A time limit until an answer begins."""

import asyncio
import logging
import re
from contextlib import suppress
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab_api.answers.problems import RETRY_SECONDS, SLOW, problem
from adaptlab_services.people.tokens import without_tokens

SLOW_FACTOR = 10
"""For routes that read or write files of any size, or draw."""
_SLOW_ROUTES = re.compile(
    r"POST (/v1)?/(datasets|model-folders)"
    r"|\w+ /datasets/uploads(/[^/]+)?"
    r"|\w+ /v1/(studies/[^/]+/bundle|uploads/[^/]+/complete|leases/[^/]+/(artifacts|records))"
)

log = logging.getLogger(__name__)


class TimeLimit:
    """Answers 503 for a request whose answer has not begun in time.

    A database that hangs without closing its connections makes a thread wait for ever, and a thread
    cannot be ended from outside. The client gets this answer; the thread may still store its
    change, but its own answer is not sent. The clock starts with the last byte of the body. The
    wait of a long poll is added.

    Args:
        seconds: until the answer begins; ten times as long for bundles, uploads, new datasets and
            model folders, and results of workers.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._allowed(scope))
        exchange.start_clock()
        try:
            await self._app(scope, exchange.receive, exchange.send)
        finally:
            await exchange.end()

    def _allowed(self, scope: Scope) -> float:
        route = f"{scope['method']} {scope['path']}"
        slow = SLOW_FACTOR if _SLOW_ROUTES.fullmatch(route) else 1
        return self._seconds * slow + _asked_to_wait(scope["query_string"])


class _Exchange:
    """One request and its answer, from the application or from the clock."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, seconds: float) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._seconds = seconds
        self._clock: asyncio.TimerHandle | None = None
        self._is_complete = False  # the body
        self._has_begun = False  # the application's answer
        self._late: asyncio.Task[None] | None = None  # ours

    def start_clock(self) -> None:
        loop = asyncio.get_running_loop()
        self._clock = loop.call_later(self._seconds, self._is_over)

    async def receive(self) -> Message:
        """Return the next message; other limits apply to the body."""
        if self._is_complete:
            return await self._receive()  # a disconnect
        self._stop_clock()
        message = await self._receive()
        self._is_complete = not message.get("more_body", False)
        if self._late is None and not self._has_begun:
            self.start_clock()
        return message

    async def send(self, message: Message) -> None:
        """Pass a message on, unless the clock has answered."""
        if self._late is not None:
            return
        self._has_begun = True
        self._stop_clock()
        await self._send(message)

    async def end(self) -> None:
        """Stop the clock, and finish sending its answer if there is one."""
        self._stop_clock()
        if self._late is not None:
            with suppress(OSError):  # the client has gone
                await self._late

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _is_over(self) -> None:
        self._clock = None
        path = without_tokens(self._scope["path"])
        log.warning("No answer within %.0f s: %s %s", self._seconds, self._scope["method"], path)
        self._late = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        detail = (
            f"The server did not answer within {self._seconds:g} seconds; try again in "
            f"{RETRY_SECONDS} seconds. The change may still have been made."
        )
        late = problem(SLOW, detail, headers={"Retry-After": str(RETRY_SECONDS)})
        await late(self._scope, self._receive, self._send)


def _asked_to_wait(query: bytes) -> float:
    """Return the seconds of a long poll, which its route validates, or 0."""
    if b"wait=" not in query:
        return 0.0
    asked = parse_qs(query.decode("latin-1")).get("wait", ["0"])[-1]
    return float(asked) if asked.replace(".", "", 1).isdecimal() and len(asked) < 8 else 0.0
