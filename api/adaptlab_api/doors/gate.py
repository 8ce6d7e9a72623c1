"""The gate, which requires a token for all but the addresses named here.

It is in front of the router, so that new routes, mounted applications and addresses that do not
exist are closed by default.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_api.answers.problems import BAD_REQUEST, CROSS_SITE, Refused, answer
from adaptlab_api.answers.state import Resources, resources_of
from adaptlab_api.doors import shown_projects
from adaptlab_api.doors.path_prefix import current_prefix
from adaptlab_api.limits.auditing import SAFE_METHODS, audited
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.people.admission import Admitted, Grant
from adaptlab_services.studies.study_links import SHARED_FOLDER

SESSION_COOKIE = "adaptlab_session"
PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/login"})
PUBLIC_FOLDERS = ("/static/", SHARED_FOLDER)
"""Of the second, each address has a token of its own, which its routes check."""
PROJECT_COOKIE = "adaptlab_project"
"""Names the only project that a browser shows. It is no permission, and one that the user cannot
see is ignored."""
OF_ALL_PROJECTS = ("/projects", "/users", "/audit", "/tokens", "/logout")
"""Addresses to which the choice of a project does not apply."""
LONGEST_PROJECT = 64
ACCESS_FOLDERS = (
    *("/v1/me", "/v1/tokens", "/v1/users", "/v1/projects"),
    *("/tokens", "/users", "/projects", "/logout"),
)
"""Changes below these addresses change permissions. They take effect in this process with the next
request, and in others within `adaptlab_services.people.admission.KEPT_SECONDS`."""
SHARES, SHARING_FORMS = "/shares", ("/share", "/take-back")
"""Parts of addresses whose changes share something, with the same effect."""


class Gate:
    """Passes a request on with its principal in its state, or refuses it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] == "websocket":  # not supported; a close before accepting is a 403
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
    except NotAuthorised as error:
        return _to_login(request) if _is_browser(request, method) else answer(error)
    except Exception as error:
        expected = answer(error)
        if expected is None:
            raise
        return expected
    return None


def session_cookie(request: HTTPConnection) -> str:
    """Return the name of the session cookie; TLS binds it to this host.

    Below a prefix it cannot be bound: others on the host must not get it.
    """
    if request.url.scheme != "https":
        return SESSION_COOKIE
    return f"{'__Secure' if current_prefix() else '__Host'}-{SESSION_COOKIE}"


def _check_address(request: HTTPConnection) -> None:
    query: bytes = request.scope["query_string"]
    if "\x00" in request.scope["path"] or b"%00" in query:
        detail = "The address contains the character U+0000."
        raise Refused(BAD_REQUEST, detail, Problem("/path", "nul_character", detail))


def _changes_access(path: str, method: str) -> bool:
    is_sharing = path.endswith(SHARING_FORMS) or SHARES in path
    return method not in SAFE_METHODS and (path.startswith(ACCESS_FOLDERS) or is_sharing)


def _forgetting(send: Send, opened: Resources) -> Send:
    """Return a `send` that clears the cache of admissions after a change.

    A refusal has changed nothing, and any client can cause one without a token.
    """

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            opened.admissions.forget()
        await send(message)

    return sending


def _is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDERS)


async def _admit(request: HTTPConnection, method: str) -> None:
    """Store the caller, its permissions and its admission in `request.state`."""
    grant = _grant(request)
    admitted = None
    if grant.is_browser and grant.project is None and (chosen := _chosen(request)) is not None:
        with suppress(InvalidSpec):  # the user is no longer a member
            admitted = await _admitted(request, replace(grant, project=chosen))
    is_chosen = admitted is not None
    admitted = admitted or await _admitted(request, grant)
    request.state.principal = admitted.principal
    if grant.is_browser and method not in SAFE_METHODS and not _same_origin(request.headers):
        raise Refused(CROSS_SITE, "This request came from another site; send a token instead.")
    request.state.access = admitted.access
    request.state.admitted = admitted
    shown_projects.show(admitted.access, is_one=is_chosen)


async def _admitted(request: HTTPConnection, grant: Grant) -> Admitted:
    admissions = resources_of(request.scope["app"]).admissions
    return admissions.known(grant) or await run_in_threadpool(admissions.admit, grant)


def _chosen(request: HTTPConnection) -> str | None:
    """Return the project that the browser shows, if it applies here."""
    name = request.cookies.get(PROJECT_COOKIE)
    if not name or request.scope["path"].startswith(OF_ALL_PROJECTS):
        return None
    return name[:LONGEST_PROJECT]


def _grant(request: HTTPConnection) -> Grant:
    """Return the token or session of a request; raises `NotAuthorised`."""
    projects = request.query_params.getlist("project")
    project = projects[0][:LONGEST_PROJECT] if projects else None
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer":
            raise NotAuthorised
        return Grant(token.strip(), False, project)
    cookie = request.cookies.get(session_cookie(request))
    if cookie is None:
        raise NotAuthorised
    return Grant(cookie, True, project)


def _same_origin(headers: Mapping[str, str]) -> bool:
    """Return True if the browser reports that a page of this server asks."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and is_from(origin, headers)


def is_from(origin: str, headers: Mapping[str, str]) -> bool:
    """Return True if an origin is the host of the request."""
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
