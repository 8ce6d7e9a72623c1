"""The outermost layer: ids, counts and the log of requests."""

import logging
import re
import time
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab_api.answers.problems import REQUEST_ID_HEADER
from adaptlab_api.answers.state import resources_of
from adaptlab_services import log_formats
from adaptlab_services.people.tokens import Principal, without_tokens
from adaptlab_services.studies.study_links import SHARED_FOLDER

QUIET_PATHS = frozenset({"/healthz", "/readyz"})
"""Addresses that supervisors ask every few seconds; logged at the level `debug`."""
LONGEST_PATH = 200
LONGEST_REQUEST_ID = 64
REQUEST_ID = re.compile(rf"[A-Za-z0-9._~-]{{1,{LONGEST_REQUEST_ID}}}")
"""Accepted ids, none of which can end a header or a line; tokens are replaced too."""

log = logging.getLogger("adaptlab_api.access")


class RequestRecord:
    """Gives every request an id, counts it and logs it.

    It is logged when its answer has ended.

    Counts are by the template of the route, not by address. Their duration ends when the answer
    begins, so that downloads and event streams do not look slow. Long polls have none.
    """

    def __init__(self, app: ASGIApp, *, logs: bool = True) -> None:
        self._app = app
        self._logs = logs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send)
        # For the whole task: uvicorn logs an unexpected error after this has returned.
        log_formats.set_facts(request_id=exchange.request_id)
        try:
            await self._app(scope, receive, exchange.send)
        finally:
            if self._logs:
                exchange.log()


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.request_id = _id_of(scope)
        self._scope = scope
        self._send = send
        self._started = time.perf_counter()
        self._status: int | None = None
        self._bytes = 0
        self._is_complete = False

    async def send(self, message: Message) -> None:
        """Pass a message on, with the request's id."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._count(message["status"])
            others = [pair for pair in message["headers"] if pair[0] != REQUEST_ID_HEADER]
            message["headers"] = [*others, (REQUEST_ID_HEADER, self.request_id.encode())]
        elif message["type"] == "http.response.body":
            self._bytes += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    def log(self) -> None:
        """Log the request; the address is without its query."""
        scope, status = self._scope, self._status
        is_quiet = scope["path"] in QUIET_PATHS and status is not None and status < 500
        level = logging.DEBUG if is_quiet else logging.INFO
        if not log.isEnabledFor(level):
            return
        who = scope.get("state", {}).get("principal")
        facts = log_formats.extra(
            request_id=self.request_id,
            method=scope["method"],
            route=_route(scope) or None,
            path=_path(scope)[:LONGEST_PATH],
            status=status,
            milliseconds=round(1000 * (time.perf_counter() - self._started), 1),
            bytes=self._bytes,
            user=who.name if isinstance(who, Principal) else None,
            address=(scope.get("client") or (None, 0))[0],
            broken_off=None if self._is_complete else True,
        )
        log.log(level, "request", extra=facts)

    def _count(self, status: int) -> None:
        seconds = time.perf_counter() - self._started
        waits = b"wait=" in self._scope["query_string"]
        counts = resources_of(self._scope["app"]).request_counts
        key = self._scope["method"], _route(self._scope)
        counts.add(key, status, None if waits else seconds)


def _id_of(scope: Scope) -> str:
    """Return the client's id of a request if it is valid, otherwise a new one."""
    given = Headers(scope=scope).getlist(REQUEST_ID_HEADER.decode())
    if len(given) == 1 and REQUEST_ID.fullmatch(given[0]) and without_tokens(given[0]) == given[0]:
        return given[0]
    return str(uuid4())


def _path(scope: Scope) -> str:
    """Return the address without the token of a link, valid or not."""
    path: str = scope["path"]
    return f"{SHARED_FOLDER}…" if path.startswith(SHARED_FOLDER) else path


def _route(scope: Scope) -> str:
    """Return the route's template, empty without a route."""
    return getattr(scope.get("route"), "path", "")
