"""The entries of the audit log: every change, and refusals of changes."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Send

from adaptlab_api.limits.refusals import Refusals
from adaptlab_services.log_formats import fact
from adaptlab_services.people import audit
from adaptlab_services.people.audit import FAILED_AUTHENTICATION, Entry
from adaptlab_services.people.tokens import Principal

H = TypeVar("H", bound=Callable[..., Any])
T = TypeVar("T", bound=Response)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_UNAUDITED = "adaptlab_unaudited"

log = logging.getLogger(__name__)


def unaudited(handler: H) -> H:
    """Mark a handler whose successful requests are not in the audit log.

    These are previews, which change nothing, and what workers do continually, which the events of
    their jobs record.
    """
    setattr(handler, _UNAUDITED, True)
    return handler


class AuditWriter:
    """Writes entries, with a limit per minute on refusals."""

    def __init__(self, sessions: sessionmaker[Session], refusals: Refusals | None = None) -> None:
        self._sessions = sessions
        self._refusals = refusals or Refusals()

    def due(self, entry: Entry) -> Sequence[Entry]:
        """Return the entries to write; a refusal beyond the limit is counted."""
        return (entry,) if entry.status < 400 else self._refusals.due(entry)

    def close(self) -> None:
        """Write the sums of the refusals that were left out."""
        for entry in self._refusals.rest():
            self.write(entry)

    def write(self, entry: Entry) -> None:
        """Append an entry; if the database fails, write it to the server's log."""
        try:
            with self._sessions.begin() as session:
                audit.record(session, entry)
        except SQLAlchemyError:
            # The action is done, so its answer must not change to an error.
            log.exception("Not in the audit log: %s", entry)


def audited(send: Send, request: HTTPConnection, method: str, written: AuditWriter) -> Send:
    """Return a `send` that writes the entry of a request before its answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            await _write(request, method, message, written)
        await send(message)

    return sending


def noted(session: Session, request: HTTPConnection, answer: T) -> T:
    """Write the entry of a request in its unit of work; return `answer`.

    This saves the commit that `audited` would need, and no change can lack its entry.
    """
    request.state.facts = audit.facts(session)
    entry = entry_of(request, answer.status_code, answer.headers)
    audit.record(session, entry)
    was_noted(request, entry)
    return answer


def entry_of(
    request: HTTPConnection, status: int, headers: Mapping[str, str] = MappingProxyType({})
) -> Entry:
    """Return the entry of a request, given its answer's status and headers."""
    return _change(request, request.scope["method"], status, headers)


def was_noted(request: HTTPConnection, entry: Entry) -> None:
    """Record that the unit of work of a request has written its entry."""
    request.state.noted = entry.request_id


async def _write(
    request: HTTPConnection, method: str, message: Message, written: AuditWriter
) -> None:
    """Write the entry of a request, unless its unit of work has."""
    is_noted = getattr(request.state, "noted", None) is not None
    if is_noted and message["status"] < 400:  # else it was rolled back
        return
    entry = _entry(request, method, message)
    if entry is None:
        return
    for due_entry in written.due(entry):
        await run_in_threadpool(written.write, due_entry)


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
        request_id=_request_id(),
        details=getattr(request.state, "facts", None),
    )


def _failed_authentication(request: HTTPConnection, method: str) -> Entry | None:
    signs_in = method == "POST" and request.scope["path"] == "/login"
    if not signs_in and not {"authorization", "cookie"} & set(request.headers):
        return None  # no token was tried
    return Entry(
        principal=None,
        address=_address(request),
        action=FAILED_AUTHENTICATION,
        object=request.scope["path"],
        status=401,
        request_id=_request_id(),
    )


def _request_id() -> str:
    """Return the id of the request in progress."""
    return str(fact("request_id") or uuid4())


def _principal(request: HTTPConnection) -> Principal | None:
    return getattr(request.state, "principal", None)


def _address(request: HTTPConnection) -> str | None:
    return None if request.client is None else request.client.host


def _operation(request: HTTPConnection) -> str | None:
    """Return the name of the route, which is its operation id."""
    return getattr(request.scope.get("route"), "name", None)


def _is_unaudited(request: HTTPConnection) -> bool:
    handler = getattr(request.scope.get("route"), "endpoint", None)
    return getattr(handler, _UNAUDITED, False)


def _object(request: HTTPConnection, status: int, headers: Mapping[str, str]) -> str | None:
    """Return the id of the created object, or of the one in the address."""
    if status == 201 and "location" in headers:
        return headers["location"].rpartition("/")[2]
    named = [str(value) for value in request.scope.get("path_params", {}).values()]
    return "/".join(named) or None
