"""`/v1/checkpoints`: trained tensors, as safetensors files."""

from fastapi import Request
from starlette.responses import Response

from adaptlab_answers.results import CheckpointView
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, UnitsDep
from adaptlab_api.requests.describing import failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.files import file_route
from adaptlab_api.routes.results import RowId
from adaptlab_services.results import checkpoints

router = api_router("/checkpoints", tag="checkpoints")


@router.get("/{checkpoint_id}", response_model=CheckpointView, responses=failures(404))
@needs("reader")
def get_checkpoint(checkpoint_id: RowId, session: SessionDep) -> Response:
    """Get the metadata of one checkpoint."""
    return json_answer(checkpoints.get(session, checkpoint_id))


@file_route(router, "/{checkpoint_id}/content")
@needs("reader")
def get_checkpoint_content(
    checkpoint_id: RowId, request: Request, opened: ResourcesDep, opens: UnitsDep
) -> Response:
    """Get one checkpoint as a safetensors file."""
    with opens() as session:
        file = checkpoints.content(session, checkpoint_id)
    return file_answer(opened.sessions, file, request.headers, head=request.method == "HEAD")
