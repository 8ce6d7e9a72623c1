"""`/v1/model-folders`: uploaded files of published models and PEFT adapters."""

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from adaptlab_answers.models import ModelFolderView
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import SessionDep, SubmitterDep
from adaptlab_api.requests.describing import WITH_BODY, created, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.models import uploaded_folder_deletion, uploaded_folders
from adaptlab_services.models.uploaded_folders import NewModelFolder
from adaptlab_services.paging import DEFAULT_PAGE_SIZE

Named = Annotated[str, Path(max_length=63)]


router = api_router("/model-folders", tag="model folders")


@router.post(
    "",
    status_code=201,
    response_model=ModelFolderView,
    responses={
        **created("model folder"),
        200: {"model": ModelFolderView, "description": "An equal model folder existed already."},
        **failures(404, 409, 429, *WITH_BODY),
    },
)
@needs("submitter")
def create_model_folder(
    body: Annotated[Body[NewModelFolder], json_body(NewModelFolder)],
    session: SessionDep,
    who: SubmitterDep,
) -> Response:
    """Create a folder of a model or an adapter from uploads, one per file; safe to repeat."""
    stored = uploaded_folders.create(session, who, body.read())
    if not stored.is_new:
        return json_answer(stored.folder)
    return json_answer(stored.folder, status=201, headers={"Location": stored.folder.links.self})


@router.get("", response_model=Page[ModelFolderView], responses=failures())
@needs("reader")
def list_model_folders(
    session: SessionDep, page_size: PageSize = DEFAULT_PAGE_SIZE, page_token: PageToken = None
) -> Response:
    """List uploaded folders by name."""
    return json_answer(uploaded_folders.page(session, page_size, page_token))


@router.get("/{name}", response_model=ModelFolderView, responses=failures(404))
@needs("reader")
def get_model_folder(name: Named, session: SessionDep) -> Response:
    """Get one uploaded folder, with the digests of its files."""
    return json_answer(uploaded_folders.get(session, name))


@router.delete("/{name}", status_code=204, responses=failures(404, 409))
@needs("submitter")
def delete_model_folder(name: Named, session: SessionDep, _: SubmitterDep) -> Response:
    """Delete an uploaded folder that no base model or unfinished job needs."""
    uploaded_folder_deletion.delete_folder(session, name)
    return Response(status_code=204, headers=NO_STORE)
