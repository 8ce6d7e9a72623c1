"""What is written into the audit log, in one place: every change, and every refusal of one."""

import logging
import time
from collections.abc import Callable
from threading import Lock
from uuid import uuid4

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import Message, Send

from adaptlab_services import audit
from adaptlab_services.audit import FAILED_AUTHENTICATION, Entry
from adaptlab_services.tokens import Principal

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
FAILURES_A_MINUTE = 60
"""Failed authentications beyond this are counted and not written, so that nobody fills the disk."""

log = logging.getLogger(__name__)


class AuditLog:
    """Writes entries, and of failed authentications only so many a minute."""

    def __init__(
        self, sessions: sessionmaker[Session], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._lock = Lock()
        self._minute = -1
        self._written = 0
        self._left_out = 0

    def write(self, entry: Entry) -> None:
        """Append an entry; where the database does not take it, it goes to the server's log."""
        try:
            with self._sessions.begin() as session:
                audit.record(session, entry)
        except SQLAlchemyError:
            # The action is done and its answer must be true: the log is where it is told.
            log.exception("Not in the audit log: %s", entry)

    def failure_details(self) -> dict[str, object] | None:
        """What to note beside a failed authentication; None if it is one too many."""
        with self._lock:
            minute = int(self._clock() // 60)
            if minute != self._minute:
                self._minute, self._written = minute, 0
            if self._written >= FAILURES_A_MINUTE:
                self._left_out += 1
                return None
            self._written += 1
            left_out, self._left_out = self._left_out, 0
            return {"left_out_before": left_out} if left_out else {}


def audited(send: Send, request: HTTPConnection, method: str, written: AuditLog) -> Send:
    """A `send` that writes down what the request did, before its answer goes out."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            entry = _entry(request, method, message, written)
            if entry is not None:
                await run_in_threadpool(written.write, entry)
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", str(entry.request_id).encode()),
                ]
        await send(message)

    return sending


def _entry(
    request: HTTPConnection, method: str, message: Message, written: AuditLog
) -> Entry | None:
    status: int = message["status"]
    if status == 401:
        return _failed_authentication(request, method, written)
    if method in SAFE_METHODS or not (status < 400 or status == 403):
        return None
    return Entry(
        principal=_principal(request),
        address=_address(request),
        action=_operation(request) or f"{method} {request.scope['path']}"[:100],
        object=_object(request, status, Headers(raw=message["headers"])),
        status=status,
        request_id=uuid4(),
    )


def _failed_authentication(request: HTTPConnection, method: str, written: AuditLog) -> Entry | None:
    signs_in = method == "POST" and request.scope["path"] == "/login"
    if not signs_in and not {"authorization", "cookie"} & set(request.headers):
        return None  # nobody tried anything
    details = written.failure_details()
    if details is None:
        return None
    return Entry(
        principal=None,
        address=_address(request),
        action=FAILED_AUTHENTICATION,
        object=request.scope["path"],
        status=401,
        request_id=uuid4(),
        details=details or None,
    )


def _principal(request: HTTPConnection) -> Principal | None:
    return getattr(request.state, "principal", None)


def _address(request: HTTPConnection) -> str | None:
    return None if request.client is None else request.client.host


def _operation(request: HTTPConnection) -> str | None:
    """The name of the route, as it stands in the description of the API."""
    return getattr(request.scope.get("route"), "name", None)


def _object(request: HTTPConnection, status: int, headers: Headers) -> str | None:
    """The id or name of what was made, else of what the address names."""
    if status == 201 and "location" in headers:
        return headers["location"].rpartition("/")[2]
    named = [str(value) for value in request.scope.get("path_params", {}).values()]
    return "/".join(named) or None
