"""How many requests of one person are under way at a time: streams and waits last for long."""

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager, nullcontext

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from adaptlab_api.auditing import SAFE_METHODS
from adaptlab_api.problems import TOO_MANY, problem
from adaptlab_services.settings import Settings
from adaptlab_services.tokens import Principal

RETRY_SECONDS = 5
CHANGES_AT_ONCE = 4
"""Of one person, of the threads that all share; the others wait for their turn."""


class OpenRequests:
    """Refuses somebody's requests beyond so many at a time; stands behind the gate.

    Every one of them holds a connection, and a stream, a wait or a slow download never counts as
    silent: without this one reader takes all connections that there are. Counted by each process.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._most = settings.max_open_requests
        self._open: Counter[int] = Counter()
        self._turns: dict[int, asyncio.Semaphore] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request, or ask its sender to wait."""
        who = getattr(HTTPConnection(scope).state, "principal", None) if _is_http(scope) else None
        if not isinstance(who, Principal):
            await self._app(scope, receive, send)
            return
        if self._open[who.user_id] >= self._most:
            detail = f"At most {self._most} requests of one person are under way here; end some."
            headers = {"Retry-After": str(RETRY_SECONDS)}
            await problem(TOO_MANY, detail, headers=headers)(scope, receive, send)
            return
        self._open[who.user_id] += 1
        try:
            async with self._turn(scope, who.user_id):
                await self._app(scope, receive, send)
        finally:
            self._open[who.user_id] -= 1
            if not self._open[who.user_id]:
                del self._open[who.user_id]
                self._turns.pop(who.user_id, None)

    def _turn(self, scope: Scope, user_id: int) -> AbstractAsyncContextManager[object]:
        """A wait for the person's other changes; a large study takes seconds, and a thread."""
        if scope["method"] in SAFE_METHODS:
            return nullcontext()
        return self._turns.setdefault(user_id, asyncio.Semaphore(CHANGES_AT_ONCE))


def _is_http(scope: Scope) -> bool:
    return scope["type"] == "http"
