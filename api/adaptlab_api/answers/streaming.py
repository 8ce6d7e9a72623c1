"""Long answers in pieces, each after its turn and a check of permissions."""

import logging
import time
from collections.abc import Iterator, Mapping

from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from adaptlab_api.answers.state import Resources, resources_of
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_services.people import admission
from adaptlab_services.people.admission import Admitted

CHECK_SECONDS = 1.0

log = logging.getLogger(__name__)


class Pieces(StreamingResponse):
    """An answer that breaks off when the caller loses permission.

    The connection is closed within the body, which a client can distinguish from its end.
    """

    def __init__(
        self, pieces: Iterator[bytes], status: int, headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__((), status, headers, media_type)
        self._pieces = pieces
        self._request: Request | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer to the caller of this request."""
        self._request = Request(scope)
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send the head and the pieces."""
        assert self._request is not None
        turn, rights = turn_of(self._request), Rights(self._request)
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        while (piece := await turn.call(self._next, rights)) is not None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if rights.are_over:
            log.info("An answer broke off because its caller has lost permission.")
            return  # without the end of the body; the server then closes the connection
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _next(self, rights: "Rights") -> bytes | None:
        return next(self._pieces, None) if rights.hold() else None


class Rights:
    """The permissions of a caller, checked about once a second."""

    def __init__(self, request: Request) -> None:
        self._opened: Resources = resources_of(request.app)
        self._who: Admitted = request.state.admitted
        self._checked = float("-inf")
        self.are_over = False

    def hold(self) -> bool:
        """Return True if they are unchanged; blocks, as it queries the database."""
        if not self.are_over and time.monotonic() - self._checked >= CHECK_SECONDS:
            with self._opened.sessions.begin() as session:
                self.are_over = not admission.still_good(session, [self._who])
            self._checked = time.monotonic()
        return not self.are_over
