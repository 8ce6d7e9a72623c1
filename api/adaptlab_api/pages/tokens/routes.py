"""Routes of the page of tokens: list, create and revoke.

The gate checks that a form was sent from this server, as for every change with a cookie.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from adaptlab_api.answers.problems import status_of
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.rendering.form_faults import REFUSALS, faults_of
from adaptlab_api.pages.rendering.forms import small_form_fields
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.tokens.page import FIELDS, HERE, NO_PROJECT, TokenForm, token_page
from adaptlab_api.requests.dependencies import AccessDep, PrincipalDep, SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.results import RowId
from adaptlab_services.errors import Absent, Forbidden
from adaptlab_services.people import issued_tokens
from adaptlab_services.people.access import Access
from adaptlab_services.people.tokens import Principal

NO_TOKEN = "You have no token with this number. It may belong to another user."
CAN_MORE = "This token has more permissions than yours"

FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(small_form_fields)]


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (token_routes(renderer),)


def token_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the page and of its two forms."""
    router = closed_router(HERE)

    @router.get("")
    @needs("person")
    def tokens_page(
        session: SessionDep, principal: PrincipalDep, access: AccessDep, page_token: str = ""
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        return renderer.listed(
            "tokens.html", shown, lambda: token_page(session, principal, access, page_token or None)
        )

    @router.post("")
    @needs("person")
    def create_token(
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        answer = _made(renderer, session, principal, access, TokenForm.read(fields))
        return noted(session, request, answer) if answer.status_code < 400 else answer

    @router.post("/{token_id}/revoke")
    @needs("person")
    def revoke_token(
        token_id: RowId,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            issued_tokens.revoke(session, principal, access, token_id)
        except Absent:
            return renderer.fault(404, "There is no such token", NO_TOKEN, shown)
        except Forbidden as refusal:
            return renderer.fault(403, CAN_MORE, str(refusal), shown)
        return noted(session, request, RedirectResponse(HERE, 303))

    return router


def _made(
    renderer: Renderer, session: Session, principal: Principal, access: Access, form: TokenForm
) -> Response:
    """Return the page with the new token, shown once, or with the errors."""
    shown: dict[str, object] = {"principal": principal, "here": HERE}
    try:
        with session.begin_nested():
            created = issued_tokens.create(session, principal, access, form.asked())
    except REFUSALS as refusal:
        status = status_of(refusal)
        content = token_page(session, principal, access, form=form)
        faults = {"faults": faults_of(refusal, FIELDS, NO_PROJECT)}
        return renderer.page("tokens.html", {**shown, **content, **faults}, status)
    content = token_page(session, principal, access)
    # No redirect: the token would have to be stored until it is shown.
    place = {"Location": f"/v1/tokens/{created.id}"}  # names it in the audit log
    return renderer.page("tokens.html", {**shown, **content, "made": created}, 201, place)
