"""Limits on the open requests and threads of one user."""

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab_api.answers.problems import TOO_MANY, problem
from adaptlab_api.limits.addresses import subscriber
from adaptlab_api.limits.auditing import SAFE_METHODS
from adaptlab_api.limits.thread_turns import Turn, Turns
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings
from adaptlab_services.studies.study_links import SHARED_FOLDER

RETRY_SECONDS = 5
CHANGES_AT_ONCE = 4
"""Threads per user; further changes wait for their turn."""
READS_AT_ONCE = 8
"""Threads per user; reads without a turn in time are refused with `Retry-After`."""
PATIENCE_SECONDS = 5.0
LEASES = "/v1/leases"


@dataclass(slots=True)
class _Person:
    """The open requests of one user."""

    requests: int = 0
    changes: Turns = field(default_factory=lambda: Turns(CHANGES_AT_ONCE))
    reads: Turns = field(default_factory=lambda: Turns(READS_AT_ONCE))


class OpenRequests:
    """Limits a user's requests at a time; comes after the gate.

    Every open request holds a connection, and streams, waits and slow downloads never count as
    idle: without a limit, one reader could take all connections. Every request also uses one of a
    few threads until its answer begins. Each process counts for itself. The workers of one token
    count as one more user, and so do the visitors by links from one address.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._most = settings.max_open_requests
        self._people: dict[tuple[str, int | str], _Person] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request, or refuse it with `Retry-After`."""
        side = _side(scope) if _is_http(scope) else None
        if side is None:
            await self._app(scope, receive, send)
            return
        person = self._people.setdefault(side, _Person())
        if person.requests >= self._most:
            await _too_many(f"At most {self._most} requests")(scope, receive, send)
            return
        person.requests += 1
        try:
            await self._run(person, scope, receive, send)
        finally:
            person.requests -= 1
            if not person.requests:
                del self._people[side]

    async def _run(self, person: _Person, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["method"] in SAFE_METHODS
        turn = Turn(person.reads if is_read else person.changes)
        # A change waits without limit, because the one before it may be a study of seconds.
        if not await turn.take(PATIENCE_SECONDS if is_read else None):
            await _too_many(f"At most {READS_AT_ONCE} slow reads")(scope, receive, send)
            return
        HTTPConnection(scope).state.turn = turn
        try:
            await self._app(scope, receive, _until_it_begins(turn, send) if is_read else send)
        finally:
            turn.give_back()


def _side(scope: Scope) -> tuple[str, int | str] | None:
    """Return who makes a request, or None for an open address."""
    who = getattr(HTTPConnection(scope).state, "principal", None)
    if isinstance(who, Principal):
        # A worker's long upload must not delay its user or the user's other workers.
        return ("token", who.token_id) if is_of_leases(scope) else ("user", who.user_id)
    if is_of_links(scope):
        return ("address", subscriber((scope.get("client") or (None, 0))[0]))
    return None


def is_of_links(scope: Scope) -> bool:
    """Return True if a request is of a visitor by a link."""
    path: str = scope["path"]
    return path.startswith(SHARED_FOLDER)


def is_of_leases(scope: Scope) -> bool:
    """Return True if a request claims a lease or is made under one."""
    path: str = scope["path"]
    return path.startswith(LEASES)


def _until_it_begins(turn: Turn, send: Send) -> Send:
    """Return a `send` that gives the turn back when the answer begins."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            turn.give_back()
        await send(message)

    return sending


def _too_many(what: str) -> Response:
    detail = f"{what} of one user run at a time. Wait until some have ended."
    return problem(TOO_MANY, detail, headers={"Retry-After": str(RETRY_SECONDS)})


def _is_http(scope: Scope) -> bool:
    return scope["type"] == "http"
