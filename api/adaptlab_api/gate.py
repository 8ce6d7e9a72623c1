"""Nobody gets past without a token: everything is closed but what is named here.

It stands in front of the router, so a new route, a mounted application or an address that does
not exist is closed too, without anybody having to remember it.
"""

from collections.abc import Callable, Mapping
from urllib.parse import quote, urlsplit

from fastapi import FastAPI
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from adaptlab.errors import Problem
from adaptlab_api.problems import BAD_REQUEST, CROSS_SITE, Refused, answer
from adaptlab_api.state import resources_of
from adaptlab_services import tokens
from adaptlab_services.errors import Unauthorised
from adaptlab_services.tokens import Principal

SESSION_COOKIE = "adaptlab_session"
PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/login"})
PUBLIC_FOLDER = "/static/"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

Authenticate = Callable[[Session, str], Principal]


class Gate:
    """Lets a request through with its principal in `request.state`, or answers it itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] == "websocket":  # there are none; a close before accepting is a 403
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http":
            refusal = await _refusal(HTTPConnection(scope), scope["method"])
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _refusal(request: HTTPConnection, method: str) -> Response | None:
    try:
        _check_address(request)
        if not _is_public(request.scope["path"]):
            request.state.principal = await _principal(request, method)
    except Unauthorised as error:
        return _to_login(request) if _is_browser(request, method) else answer(error)
    except Exception as error:
        known = answer(error)
        if known is None:
            raise
        return known
    return None


def _check_address(request: HTTPConnection) -> None:
    query: bytes = request.scope["query_string"]
    if "\x00" in request.scope["path"] or b"%00" in query:
        detail = "The address holds the character U+0000."
        raise Refused(BAD_REQUEST, detail, Problem("/path", "nul_character", detail))


def _is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDER)


async def _principal(request: HTTPConnection, method: str) -> Principal:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer":
            raise Unauthorised
        return await _asked(request, tokens.authenticate, token.strip())
    cookie = request.cookies.get(SESSION_COOKIE)
    if cookie is None:
        raise Unauthorised
    principal = await _asked(request, tokens.authenticate_browser, cookie)
    if method not in SAFE_METHODS and not _same_origin(request.headers):
        raise Refused(CROSS_SITE, "This request came from another site; send a token instead.")
    return principal


async def _asked(request: HTTPConnection, authenticate: Authenticate, secret: str) -> Principal:
    app: FastAPI = request.scope["app"]
    sessions = resources_of(app).sessions

    def ask() -> Principal:
        with sessions.begin() as session:
            return authenticate(session, secret)

    return await run_in_threadpool(ask)


def _same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that its page came from this server; silence does not count."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


def _is_browser(request: HTTPConnection, method: str) -> bool:
    wants_page = "text/html" in request.headers.get("accept", "")
    return method == "GET" and wants_page and "authorization" not in request.headers


def _to_login(request: HTTPConnection) -> Response:
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(wanted, safe='/')}", status_code=303)
