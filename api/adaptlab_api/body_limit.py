"""The limit on request bodies, kept by counting what arrives.

Starlette has a middleware for this; it answers in plain text, and here every error is a problem
document.
"""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab_api.problems import TOO_LARGE, Refused, answer

DRAIN_FACTOR = 16
DRAIN_SECONDS = 2.0


class BodyLimit:
    """Refuses a request whose body, announced or counted, has more than `limit` bytes."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _announced(scope) > self._limit:
            await self._drain(receive)
            await self._refuse(scope, receive, send)
            return
        counted = 0

        async def counting() -> Message:
            nonlocal counted
            message = await receive()
            counted += len(message.get("body", b""))
            if counted > self._limit:
                await self._drain(receive)
                raise self._refusal()
            return message

        await self._app(scope, counting, send)

    def _refusal(self) -> Refused:
        return Refused(TOO_LARGE, f"A body has at most {self._limit} bytes; send less.")

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = answer(self._refusal())
        assert response is not None
        await response(scope, receive, send)

    async def _drain(self, receive: Receive) -> None:
        """Read on for a while, so that a client that sends before it reads sees the answer."""
        left = DRAIN_FACTOR * self._limit
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            return


def _announced(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "0")
    # What is no number was refused by the server; here it counts as what arrives.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
