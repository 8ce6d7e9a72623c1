"""`/v1/hub-fetches`: models that the server fetches from a hub."""

from typing import Annotated
from uuid import UUID

from starlette.responses import Response

from adaptlab_answers.hub import HubFetchView
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, SubmitterDep
from adaptlab_api.requests.describing import WITH_BODY, created, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.hub import fetches
from adaptlab_services.hub.fetches import NewHubFetch
from adaptlab_services.paging import DEFAULT_PAGE_SIZE

router = api_router("/hub-fetches", tag="model folders")


@router.post(
    "",
    status_code=201,
    response_model=HubFetchView,
    responses={
        **created("fetch"),
        200: {"model": HubFetchView, "description": "An equal fetch is active already."},
        **failures(409, 429, *WITH_BODY),
    },
)
@needs("submitter")
def create_hub_fetch(
    body: Annotated[Body[NewHubFetch], json_body(NewHubFetch)],
    session: SessionDep,
    who: SubmitterDep,
    opened: ResourcesDep,
) -> Response:
    """Have a model fetched from the hub, and imported as a base model; safe to repeat."""
    fetch, is_new = fetches.create(session, who, body.read(), opened.settings)
    if not is_new:
        return json_answer(fetch)
    return json_answer(fetch, status=201, headers={"Location": fetch.links.self})


@router.get("", response_model=Page[HubFetchView], responses=failures())
@needs("reader")
def list_hub_fetches(
    session: SessionDep, page_size: PageSize = DEFAULT_PAGE_SIZE, page_token: PageToken = None
) -> Response:
    """List fetches of the last 90 days, newest first."""
    return json_answer(fetches.page(session, page_size, page_token))


@router.get("/{fetch_id}", response_model=HubFetchView, responses=failures(404))
@needs("reader")
def get_hub_fetch(fetch_id: UUID, session: SessionDep) -> Response:
    """Get one fetch, with its progress and, once it is known, its plan."""
    return json_answer(fetches.get(session, fetch_id))


@router.post("/{fetch_id}/cancel", response_model=HubFetchView, responses=failures(404))
@needs("submitter")
def cancel_hub_fetch(fetch_id: UUID, session: SessionDep, _: SubmitterDep) -> Response:
    """Cancel a fetch; what it has brought is deleted. Safe to repeat."""
    return json_answer(fetches.cancel(session, fetch_id))


@router.post("/{fetch_id}/retry", response_model=HubFetchView, responses=failures(404, 409))
@needs("submitter")
def retry_hub_fetch(
    fetch_id: UUID, session: SessionDep, _: SubmitterDep, opened: ResourcesDep
) -> Response:
    """Try a failed or cancelled fetch again, or one that waits, at once."""
    return json_answer(fetches.retry(session, fetch_id, opened.settings))
