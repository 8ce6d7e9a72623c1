"""What is written into the audit log, in one place: every change, and refusals of changes."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID, uuid4

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Send

from adaptlab_api.limits.refusals import Refusals
from adaptlab_services.people import audit
from adaptlab_services.people.audit import FAILED_AUTHENTICATION, Entry
from adaptlab_services.people.tokens import Principal

H = TypeVar("H", bound=Callable[..., Any])
T = TypeVar("T", bound=Response)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_UNAUDITED = "adaptlab_unaudited"

log = logging.getLogger(__name__)


def unaudited(handler: H) -> H:
    """Mark a handler whose successful requests are not written to the audit log.

    These are previews, which change nothing, and what workers do continually, which the events of
    their jobs record.
    """
    setattr(handler, _UNAUDITED, True)
    return handler


class AuditLog:
    """Writes entries, and of refusals only so many a minute."""

    def __init__(self, sessions: sessionmaker[Session], refusals: Refusals | None = None) -> None:
        self._sessions = sessions
        self._refusals = refusals or Refusals()

    def due(self, entry: Entry) -> Sequence[Entry]:
        """What is to be written because of this: itself, if it is not a refusal too many."""
        return (entry,) if entry.status < 400 else self._refusals.due(entry)

    def close(self) -> None:
        """Write how many refusals were left out."""
        for entry in self._refusals.rest():
            self.write(entry)

    def write(self, entry: Entry) -> None:
        """Append an entry; where the database does not take it, it goes to the server's log."""
        try:
            with self._sessions.begin() as session:
                audit.record(session, entry)
        except SQLAlchemyError:
            # The action is done and its answer must be true: the log is where it is told.
            log.exception("Not in the audit log: %s", entry)


def audited(send: Send, request: HTTPConnection, method: str, written: AuditLog) -> Send:
    """A `send` that writes down what the request did, before its answer goes out."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            request_id = await _written(request, method, message, written)
            if request_id is not None:
                identified = (b"x-request-id", str(request_id).encode())
                message["headers"] = [*message["headers"], identified]
        await send(message)

    return sending


def noted(session: Session, request: HTTPConnection, answer: T) -> T:
    """Write down what a request did in the unit of work that does it; returns its answer.

    One commit less than by `audited`, which then has nothing left to do, and what is done is never
    without its entry.
    """
    request.state.facts = audit.facts(session)
    entry = entry_of(request, answer.status_code, answer.headers)
    audit.record(session, entry)
    was_noted(request, entry)
    return answer


def entry_of(
    request: HTTPConnection, status: int, headers: Mapping[str, str] = MappingProxyType({})
) -> Entry:
    """The entry for a request that is answered with this status and these headers."""
    return _change(request, request.scope["method"], status, headers)


def was_noted(request: HTTPConnection, entry: Entry) -> None:
    """An entry was written in the unit of work that does what the request asks for."""
    request.state.noted = entry.request_id


async def _written(
    request: HTTPConnection, method: str, message: Message, written: AuditLog
) -> UUID | None:
    """The name under which a request stands in the log; None for one that does not."""
    already: UUID | None = getattr(request.state, "noted", None)
    if already is not None and message["status"] < 400:  # else it was rolled back
        return already
    entry = _entry(request, method, message)
    if entry is None:
        return None
    due = written.due(entry)
    for one in due:
        await run_in_threadpool(written.write, one)
    return entry.request_id if entry in due else None


def _entry(request: HTTPConnection, method: str, message: Message) -> Entry | None:
    status: int = message["status"]
    if status == 401:
        return _failed_authentication(request, method)
    if method in SAFE_METHODS or not (status < 400 or status == 403):
        return None
    if status < 400 and _is_unaudited(request):
        return None
    return _change(request, method, status, Headers(raw=message["headers"]))


def _change(request: HTTPConnection, method: str, status: int, headers: Mapping[str, str]) -> Entry:
    return Entry(
        principal=_principal(request),
        address=_address(request),
        action=_operation(request) or f"{method} {request.scope['path']}"[:100],
        object=_object(request, status, headers),
        status=status,
        request_id=uuid4(),
        details=getattr(request.state, "facts", None),
    )


def _failed_authentication(request: HTTPConnection, method: str) -> Entry | None:
    signs_in = method == "POST" and request.scope["path"] == "/login"
    if not signs_in and not {"authorization", "cookie"} & set(request.headers):
        return None  # nobody tried anything
    return Entry(
        principal=None,
        address=_address(request),
        action=FAILED_AUTHENTICATION,
        object=request.scope["path"],
        status=401,
        request_id=uuid4(),
    )


def _principal(request: HTTPConnection) -> Principal | None:
    return getattr(request.state, "principal", None)


def _address(request: HTTPConnection) -> str | None:
    return None if request.client is None else request.client.host


def _operation(request: HTTPConnection) -> str | None:
    """The name of the route, as it stands in the description of the API."""
    return getattr(request.scope.get("route"), "name", None)


def _is_unaudited(request: HTTPConnection) -> bool:
    handler = getattr(request.scope.get("route"), "endpoint", None)
    return getattr(handler, _UNAUDITED, False)


def _object(request: HTTPConnection, status: int, headers: Mapping[str, str]) -> str | None:
    """The id or name of what was made, else of what the address names."""
    if status == 201 and "location" in headers:
        return headers["location"].rpartition("/")[2]
    named = [str(value) for value in request.scope.get("path_params", {}).values()]
    return "/".join(named) or None
