"""Signing a browser in and out, by exchanging a token for a session."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from adaptlab_api.doors.gate import is_from, session_cookie
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.rendering.forms import small_form_fields
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.people import tokens

WRONG = "This token is not valid. It may be mistyped, expired or revoked."
FOREIGN = "This form was sent from another site. Open the sign-in page here and try again."


@dataclass(frozen=True, slots=True)
class SignIn:
    """The sign-in form; `next` is the local path to continue at."""

    token: str
    next: str


async def sign_in_form(request: Request) -> SignIn:
    """Return the sign-in form; raise `Refused` for another kind of body."""
    fields = await small_form_fields(request)
    return SignIn(
        token=fields.get("token", [""])[0].strip(),
        next=local_path(fields.get("next", ["/"])[0]),
    )


def local_path(address: str) -> str:
    """Return the address if it is a path on this server, or else `/`."""
    try:
        parts = urlsplit(address.replace("\\", "/"))
    except ValueError:  # brackets that hold no address
        return "/"
    plain = address.isprintable() and " " not in address
    if plain and not parts.scheme and not parts.netloc and parts.path.startswith("/"):
        return address if not address.startswith(("//", "/\\")) else "/"
    return "/"


def same_origin(request: Request) -> bool:
    """Return True unless the browser reports a page of another server.

    Programs other than browsers report nothing, and have no session to misuse.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or is_from(origin, request.headers)


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (sign_in_routes(renderer),)


def sign_in_routes(renderer: Renderer) -> APIRouter:
    """Return the routes `/login` and `/logout`."""
    router = APIRouter(include_in_schema=False)

    def form(wanted: str, fault: str | None = None, status: int = 200) -> Response:
        challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return renderer.page("login.html", {"next": wanted, "fault": fault}, status, challenge)

    @router.get("/login")
    def login_page(wanted: Annotated[str, Query(alias="next")] = "/") -> Response:
        return form(local_path(wanted))

    @router.post("/login")
    def login(
        request: Request, session: SessionDep, sign_in: Annotated[SignIn, Depends(sign_in_form)]
    ) -> Response:
        if not same_origin(request):
            return form(sign_in.next, FOREIGN, 403)
        try:
            principal = tokens.authenticate(session, sign_in.token)
        except NotAuthorised:
            return form(sign_in.next, WRONG, 401)
        request.state.principal = principal  # for the audit log
        answer = RedirectResponse(sign_in.next, 303)
        _set_cookie(answer, tokens.open_browser_session(session, principal), request)
        return noted(session, request, answer)

    @router.post("/logout")
    def logout(request: Request, session: SessionDep) -> Response:
        if cookie := request.cookies.get(session_cookie(request)):
            tokens.close_browser_session(session, cookie)
        answer = RedirectResponse("/login", 303)
        secure = request.url.scheme == "https"
        name = session_cookie(request)
        answer.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="lax")
        return noted(session, request, answer)

    return router


def _set_cookie(answer: Response, value: str, request: Request) -> None:
    answer.set_cookie(
        session_cookie(request),
        value,
        max_age=int(tokens.BROWSER_SESSION.total_seconds()),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
