"""Limits on request bodies and heads, enforced by counting their bytes.

Starlette's middleware for the size of a body has no minimum rate and answers in plain text, while
every error here is a problem document.
"""

import asyncio
import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab_api.answers.problems import (
    BAD_REQUEST,
    ENCODED,
    HEADERS_TOO_LARGE,
    TIMED_OUT,
    TOO_LARGE,
    Refused,
    answer,
)
from adaptlab_api.doors.http_protocol import MOST_HEADER_BYTES, TOO_LONG

DRAIN_FACTOR = 16
DRAIN_SECONDS = 2.0
GRACE_SECONDS = 10.0
"""Time for a body before its rate is checked."""
SLOWEST_BYTES_PER_SECOND = 16 * 1024

MOST_FORM_BYTES = 4096
"""Of the sign-in form and the forms of the pages of tokens and of a team."""
MOST_CHUNK_BYTES = 8 * 2**20
"""Of one chunk of an upload."""
MOST_RECORD_BYTES = 8 * 2**20
"""Of one report of a worker."""
_OTHERWISE = (
    (re.compile(r"/login|/(tokens|webhooks|projects|users)(/.*)?"), MOST_FORM_BYTES),
    (re.compile(r"/v1/uploads/[^/]+/chunks/[0-9]+"), MOST_CHUNK_BYTES),
    (re.compile(r"/v1/leases/[^/]+/records"), MOST_RECORD_BYTES),
)

LimitOf = Callable[[Scope], int]


def limits_of_bodies(most: int, most_content: int, most_file: int) -> LimitOf:
    """Return the function that gives the limit of a request's body, in bytes.

    Args:
        most: the limit for routes without one of their own.
        most_content: the limit for content that a worker stores.
        most_file: the limit for a file that a page sends.
    """
    otherwise = (
        *_OTHERWISE,
        (re.compile(r"/v1/leases/[^/]+/artifacts"), most_content),
        (re.compile(r"/datasets/uploads"), most_file + MOST_FORM_BYTES),
    )

    def limit_of(scope: Scope) -> int:
        path: str = scope["path"]
        return next((limit for form, limit in otherwise if form.fullmatch(path)), most)

    return limit_of


class BodyLimit:
    """Refuses a body that is larger than its route's limit.

    It also refuses a compressed body, whose size is unknown, a body that arrives too slowly, and
    a head that is too large or describes its body in two ways.
    """

    def __init__(self, app: ASGIApp, limit_of: LimitOf) -> None:
        self._app = app
        self._limit_of = limit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit_of(scope)
        refusal = _refusal_of_head(scope, limit)
        if refusal is None:
            await self._app(scope, _Counted(receive, limit).receive, send)
            return
        await _drain(receive, limit)
        response = answer(refusal)
        assert response is not None
        await response(scope, receive, send)


class _Counted:
    """Counts the bytes of one body."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._counted = 0
        self._began: float | None = None
        self._complete = False

    async def receive(self) -> Message:
        """Return the next message; raise `Refused` for too many or too slow bytes."""
        if self._complete:
            return await self._receive()  # can only be a disconnect
        message = await self._in_time()
        self._counted += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._counted > self._limit:
            if not self._complete:
                await _drain(self._receive, self._limit)
            raise _too_large(self._limit)
        return message

    async def _in_time(self) -> Message:
        now = asyncio.get_running_loop().time()
        self._began = now if self._began is None else self._began
        allowed = GRACE_SECONDS + self._counted / SLOWEST_BYTES_PER_SECOND
        try:
            async with asyncio.timeout_at(self._began + allowed):
                return await self._receive()
        except TimeoutError as error:
            raise _too_slow(self._counted, now - self._began) from error


def _refusal_of_head(scope: Scope, limit: int) -> Refused | None:
    headers = Headers(scope=scope)
    length, chunked = headers.get("content-length"), "transfer-encoding" in headers
    if _head_bytes(scope) > MOST_HEADER_BYTES:
        return Refused(HEADERS_TOO_LARGE, TOO_LONG)
    if length is not None and chunked:
        detail = "Content-Length and Transfer-Encoding are both given; send one of them."
        return Refused(BAD_REQUEST, detail)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity" and (chunked or length not in (None, "0")):
        return Refused(ENCODED, f"The Content-Encoding is {encoding[:64]!r}; send the plain body.")
    return _too_large(limit) if _announced(length) > limit else None


def _head_bytes(scope: Scope) -> int:
    # uvicorn limits what it buffers of an incomplete head; a head in one piece passes that limit.
    line = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def _too_large(limit: int) -> Refused:
    return Refused(TOO_LARGE, f"The body is larger than {limit} bytes, the limit here. Send less.")


def _too_slow(counted: int, seconds: float) -> Refused:
    detail = (
        f"Only {counted} bytes of the body arrived in {seconds:.0f} seconds. After "
        f"{GRACE_SECONDS:g} seconds, the minimum is {SLOWEST_BYTES_PER_SECOND} bytes per second."
    )
    return Refused(TIMED_OUT, detail)


async def _drain(receive: Receive, limit: int) -> None:
    """Read on briefly, so that a client that is still sending gets the answer."""
    left = DRAIN_FACTOR * limit
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _announced(length: str | None) -> int:
    text = length or "0"
    # uvicorn has refused what is no number; without a length, the bytes are counted.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
