"""`/v1/webhooks`: messages to other servers about events of a project."""

from typing import Annotated

from starlette.responses import Response

from adaptlab_answers.paging import Page
from adaptlab_answers.webhooks import CreatedWebhook, DeliveryView, WebhookView
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import AccessDep, PrincipalDep, ResourcesDep, SessionDep
from adaptlab_api.requests.describing import WITH_BODY, created, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_api.routes.results import RowId
from adaptlab_services.limits.addresses import AddressRules
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.webhooks import webhooks
from adaptlab_services.webhooks.webhooks import NewWebhook, WebhookChanges

router = api_router("/webhooks", tag="webhooks")


@router.post(
    "",
    status_code=201,
    response_model=CreatedWebhook,
    responses=created("webhook") | failures(409, *WITH_BODY),
)
@needs("operator")
def create_webhook(
    body: Annotated[Body[NewWebhook], json_body(NewWebhook)],
    session: SessionDep,
    who: PrincipalDep,
    access: AccessDep,
    opened: ResourcesDep,
) -> Response:
    """Create a webhook; only this answer contains its secret."""
    rules = AddressRules.of(opened.settings)
    webhook = webhooks.create(session, who, access, body.read(), rules)
    headers = {"Location": f"/v1/webhooks/{webhook.id}"}
    return json_answer(webhook, status=201, headers=headers)


@router.get("", response_model=Page[WebhookView], responses=failures())
@needs("operator")
def list_webhooks(
    session: SessionDep,
    access: AccessDep,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List the webhooks of projects in which you are an operator, newest first."""
    return json_answer(webhooks.page(session, access, page_size, page_token))


@router.get("/{webhook_id}", response_model=WebhookView, responses=failures(404))
@needs("operator")
def get_webhook(webhook_id: RowId, session: SessionDep, access: AccessDep) -> Response:
    """Get a webhook, without its secret."""
    return json_answer(webhooks.get(session, access, webhook_id))


@router.patch("/{webhook_id}", response_model=WebhookView, responses=failures(404, *WITH_BODY))
@needs("operator")
def update_webhook(
    webhook_id: RowId,
    body: Annotated[Body[WebhookChanges], json_body(WebhookChanges)],
    session: SessionDep,
    access: AccessDep,
    opened: ResourcesDep,
) -> Response:
    """Change the address or the events of a webhook, or enable or disable it."""
    rules = AddressRules.of(opened.settings)
    return json_answer(webhooks.change(session, access, webhook_id, body.read(), rules))


@router.delete("/{webhook_id}", status_code=204, responses=failures(404))
@needs("operator")
def delete_webhook(webhook_id: RowId, session: SessionDep, access: AccessDep) -> Response:
    """Delete a webhook with its messages; pending ones are not sent."""
    webhooks.remove(session, access, webhook_id)
    return Response(status_code=204, headers=NO_STORE)


@router.get("/{webhook_id}/deliveries", response_model=Page[DeliveryView], responses=failures(404))
@needs("operator")
def list_deliveries(
    webhook_id: RowId,
    session: SessionDep,
    access: AccessDep,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List the messages to a webhook of the last 30 days, newest first."""
    return json_answer(webhooks.deliveries(session, access, webhook_id, page_size, page_token))


@router.post(
    "/{webhook_id}/test", status_code=202, response_model=DeliveryView, responses=failures(404, 409)
)
@needs("operator")
def test_webhook(webhook_id: RowId, session: SessionDep, access: AccessDep) -> Response:
    """Have a test message sent; its delivery shows when it has arrived."""
    return json_answer(webhooks.send_test(session, access, webhook_id), status=202)
