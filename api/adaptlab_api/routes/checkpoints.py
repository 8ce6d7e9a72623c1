"""`/v1/checkpoints`: trained tensors, as safetensors files and PEFT folders."""

from typing import Annotated

from fastapi import Request
from starlette.responses import Response

from adaptlab_answers.hub import HubFetchView
from adaptlab_answers.results import CheckpointView
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import (
    ResourcesDep,
    SessionDep,
    SubmitterDep,
    UnitsDep,
)
from adaptlab_api.requests.describing import WITH_BODY, created, failures, succeeds
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.files import file_route
from adaptlab_api.routes.results import RowId
from adaptlab_services.hub import pushes
from adaptlab_services.hub.pushes import NewHubPush
from adaptlab_services.results import checkpoints, peft_exports

router = api_router("/checkpoints", tag="checkpoints")

ZIP = "application/zip"
PEFT = succeeds(200, "A zip file with the folder.", ZIP, Content_Disposition="A name for the file.")


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


@router.get("/{checkpoint_id}/peft", response_class=Response, responses=PEFT | failures(404, 410))
@needs("reader")
def get_checkpoint_peft(
    checkpoint_id: RowId, session: SessionDep, opened: ResourcesDep
) -> Response:
    """Get one adapter as a folder that PEFT loads.

    The zip file has `adapter_config.json` and `adapter_model.safetensors`. Methods without a PEFT
    form answer 422 with the code `no_peft_form`.
    """
    content = peft_exports.archive(session, checkpoint_id, opened.model_roots)
    name = f'attachment; filename="checkpoint-{checkpoint_id}-peft.zip"'
    return Response(content, media_type=ZIP, headers={"Content-Disposition": name})


@router.post(
    "/{checkpoint_id}/pushes",
    status_code=201,
    response_model=HubFetchView,
    responses={
        **created("push"),
        200: {"model": HubFetchView, "description": "An equal push is active already."},
        **failures(404, 409, 429, *WITH_BODY),
    },
)
@needs("submitter")
def create_hub_push(
    checkpoint_id: RowId,
    body: Annotated[Body[NewHubPush], json_body(NewHubPush)],
    session: SessionDep,
    who: SubmitterDep,
    opened: ResourcesDep,
) -> Response:
    """Push an adapter to the hub, with a model card; safe to repeat.

    The push is listed among the fetches. It uses the caller's token of the hub, and makes no commit
    if the repository has the same files already.
    """
    push, is_new = pushes.create(session, who, checkpoint_id, body.read(), opened.settings)
    if not is_new:
        return json_answer(push)
    return json_answer(push, status=201, headers={"Location": push.links.self})
