"""`/v1/base-models`: weights that jobs train or import, by name."""

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from adaptlab_answers.models import BaseModelView
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.describing import failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.models import base_models
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
