"""`/v1/base-models`: names for the weights that jobs make or bring in."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from adaptlab_answers.models import BaseModelView
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.describing import failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.models import base_models
from adaptlab_services.paging import DEFAULT_PAGE_SIZE

Named = Annotated[str, Path(max_length=63)]


def base_models_router() -> APIRouter:
    """The routes of base models."""
    router = api_router("/base-models", tag="base models")
    router.add_api_route(
        "", list_base_models, response_model=Page[BaseModelView], responses=failures()
    )
    router.add_api_route(
        "/{name}", get_base_model, response_model=BaseModelView, responses=failures(404)
    )
    return router


def list_base_models(
    session: SessionDep, page_size: PageSize = DEFAULT_PAGE_SIZE, page_token: PageToken = None
) -> Response:
    """List base models by name, including those still in training."""
    return json_answer(base_models.page(session, page_size, page_token))


def get_base_model(name: Named, session: SessionDep) -> Response:
    """Get one base model."""
    return json_answer(base_models.get(session, name))
