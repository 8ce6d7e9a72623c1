"""Signing a browser in and out: a token is exchanged for a session that lies on the server."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from adaptlab_api.dependencies import SessionDep
from adaptlab_api.gate import SESSION_COOKIE
from adaptlab_api.pages.rendering import Renderer
from adaptlab_services import tokens
from adaptlab_services.errors import Unauthorised

LARGEST_FORM = 4096
WRONG = "This token is not valid. It may be mistyped, expired or revoked."
FOREIGN = "This form was sent from another site. Open the sign-in page here and try again."


@dataclass(frozen=True, slots=True)
class SignIn:
    """What the form says; `next` is the local path that the browser wanted to go to."""

    token: str
    next: str


async def sign_in_form(request: Request) -> SignIn:
    """The urlencoded form, read up to a size that no honest form reaches."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            return SignIn("", "/")
    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
    return SignIn(
        token=fields.get("token", [""])[0].strip(),
        next=local_path(fields.get("next", ["/"])[0]),
    )


def local_path(address: str) -> str:
    """The address if it is a path on this server, else the first page."""
    parts = urlsplit(address.replace("\\", "/"))
    plain = address.isprintable() and " " not in address
    if plain and not parts.scheme and not parts.netloc and parts.path.startswith("/"):
        return address if not address.startswith(("//", "/\\")) else "/"
    return "/"


def same_origin(request: Request) -> bool:
    """Whether the browser says that the form lies on a page of this server.

    Programs other than browsers say nothing, and have no session to misuse.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def sign_in_routes(renderer: Renderer) -> APIRouter:
    """`/login` and `/logout`."""
    router = APIRouter(include_in_schema=False)

    def form(wanted: str, fault: str | None = None, status: int = 200) -> Response:
        challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return renderer.page("login.html", {"next": wanted, "fault": fault}, status, challenge)

    @router.get("/login")
    def login_page(wanted: Annotated[str, Query(alias="next")] = "/") -> Response:
        return form(local_path(wanted))

    @router.post("/login")
    def login(
        request: Request, session: SessionDep, given: Annotated[SignIn, Depends(sign_in_form)]
    ) -> Response:
        if not same_origin(request):
            return form(given.next, FOREIGN, 403)
        try:
            principal = tokens.authenticate(session, given.token)
        except Unauthorised:
            return form(given.next, WRONG, 401)
        answer = RedirectResponse(given.next, 303)
        _set_cookie(answer, tokens.open_browser_session(session, principal), request)
        return answer

    @router.post("/logout")
    def logout(request: Request, session: SessionDep) -> Response:
        if cookie := request.cookies.get(SESSION_COOKIE):
            tokens.close_browser_session(session, cookie)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="lax")
        return answer

    return router


def _set_cookie(answer: Response, value: str, request: Request) -> None:
    answer.set_cookie(
        SESSION_COOKIE,
        value,
        max_age=int(tokens.BROWSER_SESSION.total_seconds()),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
