"""Routes of the page of webhooks: list, create, test, switch and delete.

The gate checks that a form was sent from this server, as for every change with a cookie.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from adaptlab_api.answers.problems import status_of
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.rendering.form_faults import REFUSALS, faults_of
from adaptlab_api.pages.rendering.forms import small_form_fields
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.rendering.team_tabs import TEAM
from adaptlab_api.pages.webhooks.page import (
    FIELDS,
    HERE,
    NO_PROJECT,
    WebhookForm,
    create,
    webhook_page,
)
from adaptlab_api.requests.dependencies import AccessDep, PrincipalDep, ResourcesDep, SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.results import RowId
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.limits.addresses import AddressRules
from adaptlab_services.people.access import Access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.webhooks import webhooks
from adaptlab_services.webhooks.webhooks import WebhookChanges

FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(small_form_fields)]
Act = Callable[[], object]


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (webhook_routes(renderer),)


def webhook_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the page and of its forms."""
    router = closed_router(HERE)

    @router.get("")
    @needs("operator")
    def webhooks_page(session: SessionDep, principal: PrincipalDep, access: AccessDep) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": TEAM}
        return renderer.page("webhooks.html", {**shown, **webhook_page(session, access)})

    @router.post("")
    @needs("operator")
    def create_webhook(
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
        opened: ResourcesDep,
    ) -> Response:
        form, rules = WebhookForm.read(fields), AddressRules.of(opened.settings)
        answer = _made(renderer, session, principal, access, form, rules)
        return noted(session, request, answer) if answer.status_code < 400 else answer

    @router.post("/{webhook_id}/test")
    @needs("operator")
    def test_webhook(
        webhook_id: RowId,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        return _acted(
            renderer, session, request, principal,
            lambda: webhooks.send_test(session, access, webhook_id),
        )  # fmt: skip

    @router.post("/{webhook_id}/enabled")
    @needs("operator")
    def update_webhook(
        webhook_id: RowId,
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
        opened: ResourcesDep,
    ) -> Response:
        wanted = fields.get("enabled") == ["yes"]
        changes, rules = WebhookChanges(enabled=wanted), AddressRules.of(opened.settings)
        return _acted(
            renderer, session, request, principal,
            lambda: webhooks.change(session, access, webhook_id, changes, rules),
        )  # fmt: skip

    @router.post("/{webhook_id}/delete")
    @needs("operator")
    def delete_webhook(
        webhook_id: RowId,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        return _acted(
            renderer, session, request, principal,
            lambda: webhooks.remove(session, access, webhook_id),
        )  # fmt: skip

    return router


def _made(
    renderer: Renderer,
    session: Session,
    principal: Principal,
    access: Access,
    form: WebhookForm,
    rules: AddressRules,
) -> Response:
    """Return the page with the secret, shown once, or with the errors."""
    shown: dict[str, object] = {"principal": principal, "here": TEAM}
    try:
        with session.begin_nested():
            created = create(session, principal, access, form, rules)
    except REFUSALS as refusal:
        content = webhook_page(session, access, form)
        faults = {"faults": faults_of(refusal, FIELDS, NO_PROJECT)}
        return renderer.page("webhooks.html", {**shown, **content, **faults}, status_of(refusal))
    # No redirect: the secret would have to be stored until it is shown.
    content = webhook_page(session, access)
    place = {"Location": f"/v1/webhooks/{created.id}"}  # names it in the audit log
    return renderer.page("webhooks.html", {**shown, **content, "made": created}, 201, place)


def _acted(
    renderer: Renderer, session: Session, request: Request, principal: Principal, act: Act
) -> Response:
    """Do something with a webhook and go back to the page."""
    shown: dict[str, object] = {"principal": principal, "here": TEAM}
    try:
        act()
    except Absent:
        return renderer.fault(404, "There is no such webhook", "It may be deleted.", shown)
    except Forbidden as refusal:
        return renderer.fault(403, "You cannot change this webhook", str(refusal), shown)
    except StateConflict as refusal:
        return renderer.fault(409, "This is not possible now", str(refusal), shown)
    return noted(session, request, RedirectResponse(HERE, 303))
