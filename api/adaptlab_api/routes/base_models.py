"""`/v1/base-models`: weights that jobs train or import, by name."""

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from adaptlab_answers.models import BaseModelView
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep
from adaptlab_api.requests.describing import WITH_BODY, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.models import base_model_sharing, base_models, base_tokenisers
from adaptlab_services.models.dataset_sharing import NewShare
from adaptlab_services.paging import DEFAULT_PAGE_SIZE

Named = Annotated[str, Path(max_length=63)]


router = api_router("/base-models", tag="base models")


@router.get("", response_model=Page[BaseModelView], responses=failures())
@needs("reader")
def list_base_models(
    session: SessionDep, page_size: PageSize = DEFAULT_PAGE_SIZE, page_token: PageToken = None
) -> Response:
    """List base models by name, including those still in training."""
    return json_answer(base_models.page(session, page_size, page_token))


@router.get("/{name}", response_model=BaseModelView, responses=failures(404))
@needs("reader")
def get_base_model(name: Named, session: SessionDep) -> Response:
    """Get one base model."""
    return json_answer(base_models.get(session, name))


@router.get(
    "/{name}/tokenizer",
    response_class=Response,
    responses={
        200: {"description": "The `tokenizer.json`.", "content": {"application/json": {}}},
        **failures(404),
    },
)
@needs("reader")
def get_base_model_tokenizer(name: Named, session: SessionDep, opened: ResourcesDep) -> Response:
    """Get the `tokenizer.json` of an imported base model that reads texts."""
    content = base_tokenisers.tokeniser_file(session, name, opened.model_roots)
    return Response(content, media_type="application/json", headers=NO_STORE)


@router.post(
    "/{name}/shares", response_model=BaseModelView, responses=failures(404, 409, *WITH_BODY)
)
@needs("submitter")
def share_base_model(
    name: Named, body: Annotated[Body[NewShare], json_body(NewShare)], session: SessionDep
) -> Response:
    """Share a base model with another project of yours, which can adapt it; safe to repeat.

    Its owner, or an admin of its project, can do this.
    """
    return json_answer(base_model_sharing.share(session, name, body.read()))


@router.delete("/{name}/shares/{project}", status_code=204, responses=failures(404, 409))
@needs("submitter")
def take_base_model_back(name: Named, project: Named, session: SessionDep) -> Response:
    """Stop sharing a base model with a project that does not need it."""
    base_model_sharing.take_back(session, name, project)
    return Response(status_code=204, headers=NO_STORE)
