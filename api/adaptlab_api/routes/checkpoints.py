"""`/v1/checkpoints`: trained tensors, as safetensors files."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from adaptlab_answers.results import CheckpointView
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, UnitsDep
from adaptlab_api.requests.describing import failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.routes.files import FILE
from adaptlab_api.routes.results import RowId
from adaptlab_services.results import checkpoints


def checkpoints_router() -> APIRouter:
    """The routes of checkpoints."""
    router = api_router("/checkpoints", tag="checkpoints")
    router.add_api_route(
        "/{checkpoint_id}", get_checkpoint, response_model=CheckpointView, responses=failures(404)
    )
    for method in ("GET", "HEAD"):
        router.add_api_route(
            "/{checkpoint_id}/content",
            get_checkpoint_content,
            methods=[method],
            operation_id=f"{method.lower()}_checkpoint_content",
            response_class=Response,
            responses=FILE | failures(404, 410, 416),
        )
    return router


def get_checkpoint(checkpoint_id: RowId, session: SessionDep) -> Response:
    """Get the metadata of one checkpoint."""
    return json_answer(checkpoints.get(session, checkpoint_id))


def get_checkpoint_content(
    checkpoint_id: RowId, request: Request, opened: ResourcesDep, opens: UnitsDep
) -> Response:
    """Get one checkpoint as a safetensors file."""
    with opens() as session:
        file = checkpoints.content(session, checkpoint_id)
    return file_answer(opened.sessions, file, request.headers, head=request.method == "HEAD")
