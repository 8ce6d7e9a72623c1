"""Requests to a tracker, to checked addresses only.

As of webhooks, redirects are not followed. Of an answer that reports an error, only the message
that a tracker writes is kept, because who chose the address may be unable to reach it.
"""

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, cast

import httpcore

from adaptlab.errors import TrackerRefused
from adaptlab_answers.trackers.board import TrackerAnswer
from adaptlab_answers.trackers.trackio import TOKEN_HEADER
from adaptlab_answers.trackers.views import TrackerKind
from adaptlab_services.limits.addresses import AddressRules
from adaptlab_services.webhooks.sending import (
    CONNECT_SECONDS,
    FAILURES,
    CheckedNetwork,
    reason,
)

TOTAL_SECONDS = 30.0
"""Longest time from the look-up of the name to the end of the answer."""
MOST_BYTES = 16 * 2**20
"""Size limit of an answer."""
LONGEST_TEXT = 300
USER_AGENT = "adaptlab-trackers"
NAMES: Mapping[TrackerKind, str] = {"mlflow": "MLflow", "trackio": "Trackio"}


class TrackerRequests:
    """Requests to one tracker over one connection; see `TrackerConnection`.

    Args:
        kind: the kind of tracker.
        url: its address.
        token: its token, or `user:password`.
        rules: the addresses that are allowed.
        before: is called before each request.
    """

    how_to_sign_in = "Add the tracker again with another token."

    def __init__(
        self,
        kind: TrackerKind,
        url: str,
        token: str | None,
        rules: AddressRules,
        before: Callable[[], None],
    ) -> None:
        self.place = url.rstrip("/")
        self._name = NAMES[kind]
        self._token = token
        self._rules = rules
        self._before = before
        self._headers = {
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            **({} if token is None else _credentials(kind, token)),
        }

    def __enter__(self) -> Self:
        """Open the connection, in a loop of events of its own."""
        self._loop = asyncio.new_event_loop()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=1,
            keepalive_expiry=TOTAL_SECONDS,
            network_backend=CheckedNetwork(self._rules),
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._loop.run_until_complete(self._pool.aclose())
        self._loop.close()

    def ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> TrackerAnswer:
        """Send a request once; raises `TrackerRefused` without an answer."""
        self._before()
        content = b"" if body is None else json.dumps(body).encode()
        try:
            self._rules.check_url(self.place)
            status, read = self._loop.run_until_complete(self._exchange(method, path, content))
        except FAILURES as error:
            detail = self._inert(reason(error, TOTAL_SECONDS))
            raise TrackerRefused(
                f"{self._name} at {self.place} does not answer: {detail}"
            ) from error
        document = _document(read)
        return TrackerAnswer(status, document, self._inert(_message(document)))

    async def _exchange(self, method: str, path: str, content: bytes) -> tuple[int, bytes]:
        seconds = dict.fromkeys(("read", "write", "pool"), TOTAL_SECONDS)
        async with (
            asyncio.timeout(TOTAL_SECONDS),
            self._pool.stream(
                method,
                f"{self.place}{path}",
                headers=list(self._headers.items()),
                content=content,
                extensions={"timeout": seconds | {"connect": CONNECT_SECONDS}},
            ) as answer,
        ):
            read = bytearray()
            async for piece in answer.aiter_stream():
                read += piece
                if len(read) > MOST_BYTES:
                    raise ValueError(f"the answer has more than {MOST_BYTES:,} bytes")
            return answer.status, bytes(read)

    def _inert(self, text: str) -> str:
        """Return a text without the token, which a tracker could repeat."""
        for secret in (self._token or "").split(":"):
            text = text.replace(secret, "…") if len(secret) > 3 else text
        return text[:LONGEST_TEXT]


def _credentials(kind: TrackerKind, token: str) -> dict[str, str]:
    if kind == "trackio":
        return {TOKEN_HEADER: token}
    if ":" in token:
        return {"authorization": f"Basic {b64encode(token.encode()).decode()}"}
    return {"authorization": f"Bearer {token}"}


def _document(read: bytes) -> dict[str, Any] | None:
    try:
        document: object = json.loads(read)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


def _message(document: dict[str, Any] | None) -> str:
    for member in ("message", "error"):
        text = (document or {}).get(member)
        if isinstance(text, str):
            return text
    return "(no message)"
