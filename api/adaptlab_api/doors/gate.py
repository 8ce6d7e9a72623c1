"""Nobody gets past without a token: everything is closed but what is named here.

It stands in front of the router, so a new route, a mounted application or an address that does
not exist is closed too, without anybody having to remember it.
"""

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab.errors import Problem
from adaptlab_api.answers.problems import BAD_REQUEST, CROSS_SITE, Refused, answer
from adaptlab_api.answers.state import Resources, resources_of
from adaptlab_api.limits.auditing import SAFE_METHODS, audited
from adaptlab_services.errors import Unauthorised
from adaptlab_services.people.admission import Grant

SESSION_COOKIE = "adaptlab_session"
PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/login"})
PUBLIC_FOLDER = "/static/"
LONGEST_PROJECT = 64
ACCESS_FOLDERS = ("/v1/tokens", "/v1/users", "/v1/projects", "/tokens", "/logout")
"""What is changed here decides who comes in, and holds in this process with the next request;
other processes hear of it within `adaptlab_services.people.admission.KEPT_SECONDS`."""


class Gate:
    """Lets a request through with its principal in `request.state`, or answers it itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] == "websocket":  # there are none; a close before accepting is a 403
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, app = HTTPConnection(scope), self._app
        opened, method = resources_of(scope["app"]), scope["method"]
        refusal = await _refusal(request, method)
        sending = audited(send, request, method, opened.audit_log)
        if _changes_access(scope["path"], method):
            sending = _forgetting(sending, opened)
        await (refusal or app)(scope, receive, sending)


async def _refusal(request: HTTPConnection, method: str) -> Response | None:
    try:
        _check_address(request)
        if not _is_public(request.scope["path"]):
            await _admit(request, method)
    except Unauthorised as error:
        return _to_login(request) if _is_browser(request, method) else answer(error)
    except Exception as error:
        known = answer(error)
        if known is None:
            raise
        return known
    return None


def session_cookie(request: HTTPConnection) -> str:
    """The name of the session's cookie; under TLS one that only this host can set, and only so."""
    return f"__Host-{SESSION_COOKIE}" if request.url.scheme == "https" else SESSION_COOKIE


def _check_address(request: HTTPConnection) -> None:
    query: bytes = request.scope["query_string"]
    if "\x00" in request.scope["path"] or b"%00" in query:
        detail = "The address holds the character U+0000."
        raise Refused(BAD_REQUEST, detail, Problem("/path", "nul_character", detail))


def _changes_access(path: str, method: str) -> bool:
    return method not in SAFE_METHODS and path.startswith(ACCESS_FOLDERS)


def _forgetting(send: Send, opened: Resources) -> Send:
    """A `send` before which nobody counts as known: the next request of each is looked up.

    Not of a refusal, which changed nothing, and which anybody can have without a token.
    """

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            opened.admissions.forget()
        await send(message)

    return sending


def _is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDER)


async def _admit(request: HTTPConnection, method: str) -> None:
    """Note in `request.state` who asks, what they may, and how to see whether they still may."""
    grant = _grant(request)
    admissions = resources_of(request.scope["app"]).admissions
    found = admissions.known(grant) or await run_in_threadpool(admissions.admit, grant)
    request.state.principal = found.principal
    if grant.is_browser and method not in SAFE_METHODS and not _same_origin(request.headers):
        raise Refused(CROSS_SITE, "This request came from another site; send a token instead.")
    request.state.access = found.access
    request.state.admitted = found


def _grant(request: HTTPConnection) -> Grant:
    """What the request presents; raises `Unauthorised` if that is nothing."""
    projects = request.query_params.getlist("project")
    project = projects[0][:LONGEST_PROJECT] if projects else None
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer":
            raise Unauthorised
        return Grant(token.strip(), False, project)
    cookie = request.cookies.get(session_cookie(request))
    if cookie is None:
        raise Unauthorised
    return Grant(cookie, True, project)


def _same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that its page came from this server; silence does not count."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and is_from(origin, headers)


def is_from(origin: str, headers: Mapping[str, str]) -> bool:
    """Whether an origin is the host that was asked."""
    try:
        return urlsplit(origin).netloc == headers.get("host")
    except ValueError:  # brackets that hold no address
        return False


def _is_browser(request: HTTPConnection, method: str) -> bool:
    wants_page = "text/html" in request.headers.get("accept", "")
    return method == "GET" and wants_page and "authorization" not in request.headers


def _to_login(request: HTTPConnection) -> Response:
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(wanted, safe='/')}", status_code=303)
