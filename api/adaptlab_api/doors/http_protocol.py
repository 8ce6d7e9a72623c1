"""HTTP on a socket, for clients that are slow, silent or send no HTTP.

uvicorn has no time limit for the head of a first request (measured: a connection that sends
nothing, half a head, or a header per second is still open after 25 seconds), and answers invalid
HTTP in plain text. Hypercorn and Granian were considered: replacing the server for these two gaps
is not worth it.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from operator import itemgetter
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from adaptlab_api.answers.problems import (
    BAD_REQUEST,
    HEADERS_TOO_LARGE,
    REQUEST_ID_HEADER,
    TIMED_OUT,
    Kind,
    problem,
)
from adaptlab_api.limits.addresses import subscriber
from adaptlab_services import log_formats

MOST_HEADER_BYTES = 16 * 1024
MOST_CONNECTIONS = 1000
MOST_FROM_ONE_ADDRESS = 500
"""Of these; an IPv6 address counts as its /64. One client cannot take all connections."""
HEADER_SECONDS = 10.0
"""From opening a connection, or the first byte of a later request, to the end of the head."""
LINGER_SECONDS = 2.0
"""For the rest of a body that was answered early."""
SEND_SECONDS = 60.0
"""Without progress because the client does not read the answer."""

log = logging.getLogger("adaptlab_api.access")

TOO_LONG = f"The head of the request is larger than {MOST_HEADER_BYTES} bytes. Send fewer headers."
LATE = f"The head of the request did not arrive within {HEADER_SECONDS:g} seconds."
NO_HTTP = "This is not an HTTP/1.1 request."


class PatientProtocol(H11Protocol):
    """One connection, with time limits for its client."""

    limits_addresses: ClassVar[bool] = True
    waiting_since: float | None = None
    stuck_since: float | None = None
    _is_given_up = False
    _deadline: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's own
        """Start the clock for the head of the first request."""
        super().connection_made(transport)
        # The clock for unread answers starts with their first byte instead of at 64 KiB, because a
        # closed connection would wait for its last bytes for ever. With a limit of 0, asyncio's TLS
        # would pause without anything to send, and never resume.
        transport.set_write_buffer_limits(high=1, low=0)
        self._allow(HEADER_SECONDS)
        every: list[PatientProtocol] = [
            other for other in self.connections if isinstance(other, PatientProtocol)
        ]
        # Without those aborted since the loop last ran: each makes room for one connection.
        ours = [other for other in every if not other._is_given_up]
        neighbours = [other for other in ours if other._subscriber == self._subscriber]
        if self.limits_addresses and len(neighbours) > MOST_FROM_ONE_ADDRESS:
            self._make_room(neighbours)
        elif len(ours) > MOST_CONNECTIONS:
            self._make_room(ours)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        self._allow(None)
        self._cancel_stuck()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the clock runs until the head of a request is complete."""
        super().data_received(data)
        if self._is_between_requests:
            # The first byte starts the clock, and later ones do not restart it.
            if self._deadline is None:
                self._allow(HEADER_SECONDS)
        elif not self._is_answered:
            self._allow(None)

    def on_response_complete(self) -> None:
        """Wait for another request, or briefly for the rest of this one."""
        super().on_response_complete()
        if self._is_between_requests:
            self.waiting_since = time.monotonic()  # uvicorn's keep-alive clock runs
        elif self._is_answered and self.conn.their_state is h11.SEND_BODY:
            self._allow(LINGER_SECONDS)

    def pause_writing(self) -> None:
        """Start the clock for a client that does not read."""
        super().pause_writing()
        self.stuck_since = time.monotonic()
        self._stuck = self.loop.call_later(SEND_SECONDS, self._give_up)

    def resume_writing(self) -> None:
        """Stop that clock, because the client has read something."""
        self._cancel_stuck()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP or a head that is too long with a problem document."""
        # uvicorn calls this while it handles the error, without passing it.
        hint = getattr(sys.exception(), "error_status_hint", 400)
        if hint == HEADERS_TOO_LARGE.status:
            self._refuse(HEADERS_TOO_LARGE, TOO_LONG)
        else:
            self._refuse(BAD_REQUEST, NO_HTTP)

    @property
    def _is_between_requests(self) -> bool:
        return self.conn.their_state is h11.IDLE

    @property
    def _is_answered(self) -> bool:
        return self._in_hand is not None and self._in_hand.response_complete

    @property
    def _in_hand(self) -> RequestResponseCycle | None:
        """The latest request; None before the first, which uvicorn's type omits."""
        return self.cycle

    def _allow(self, seconds: float | None) -> None:
        """Limit the time for what the client has to send; None for no limit."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._late)
        self.waiting_since = None if seconds is None else time.monotonic()

    def _late(self) -> None:
        self._deadline = None
        if self._is_answered:
            self.transport.abort()
        elif self._is_between_requests and self.conn.trailing_data[0]:
            self._refuse(TIMED_OUT, LATE)
        else:
            self.transport.close()

    @property
    def idle_since(self) -> float | None:
        """Time since which the client neither sent nor read what it has to."""
        since = [start for start in (self.waiting_since, self.stuck_since) if start is not None]
        return min(since, default=None)

    @property
    def _subscriber(self) -> str:
        """The subscriber that the client's address identifies."""
        peer: tuple[str, int] | None = self.client
        return subscriber(peer[0] if peer else None)

    def _make_room(self, among: Sequence["PatientProtocol"]) -> None:
        """Close the connection that has waited longest for its client."""
        idle = [(other.idle_since, other) for other in among if other.idle_since is not None]
        _, longest = min(idle, key=itemgetter(0), default=(0.0, self))
        longest._give_up()

    def _give_up(self) -> None:
        """Close the connection, without what the client has not read."""
        self._is_given_up = True
        self.transport.abort()

    def _refuse(self, kind: Kind, detail: str) -> None:
        """Answer what never became a request, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = problem(kind, detail, headers={"Connection": "close"})
            head = h11.Response(status_code=kind.status, headers=answer.raw_headers)
            for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self._log(kind, answer.headers[REQUEST_ID_HEADER.decode()])
        if self._in_hand is not None and not self._in_hand.response_complete:
            # A route that still reads the body learns that the client is gone.
            self._in_hand.disconnected = True
            self._in_hand.message_event.set()
        self.transport.close()

    def _log(self, kind: Kind, request_id: str) -> None:
        """Log a refusal like a request; such clients can be many, so at `debug`."""
        peer: tuple[str, int] | None = self.client
        address = peer[0] if peer else None
        facts = {"request_id": request_id, "status": kind.status, "address": address}
        log.debug("refused: %s", kind.title, extra=log_formats.extra(**facts))

    def _cancel_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        self.stuck_since = None


class ProxiedProtocol(PatientProtocol):
    """One connection of the proxy, whose address is that of all clients."""

    limits_addresses = False
