"""`/v1/base-models`: weights that jobs train or import, by name."""

from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from adaptlab_answers.models import BaseModelFolder, BaseModelView
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.answers.streaming import Pieces
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, UnitsDep
from adaptlab_api.requests.describing import WITH_BODY, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.files import BYTES, file_route
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.models import (
    base_folders,
    base_model_sharing,
    base_models,
    base_tokenisers,
)
from adaptlab_services.models.base_folders import PlacedFile, WrittenFile
from adaptlab_services.models.dataset_sharing import NewShare
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.storage.stored_files import StoredFile

Named = Annotated[str, Path(max_length=63)]
Replicate = Annotated[int, Query(ge=0, le=10**6, description="Of a model trained here.")]


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


@router.get("/{name}/folder", response_model=BaseModelFolder, responses=failures(404, 410))
@needs("reader")
def get_base_model_folder(
    name: Named, session: SessionDep, opened: ResourcesDep, replicate: Replicate = 0
) -> Response:
    """List the files that transformers loads a base model from.

    A family without a form in transformers answers 422 with the code `no_library_form`.
    """
    return json_answer(base_folders.listed(session, name, replicate, opened.model_roots))


@file_route(router, "/{name}/folder/{file}")
@needs("reader")
def get_base_model_file(
    name: Named,
    file: Annotated[str, Path(max_length=255)],
    request: Request,
    opened: ResourcesDep,
    opens: UnitsDep,
    replicate: Replicate = 0,
) -> Response:
    """Get one file of a base model's folder."""
    with opens() as session:
        found = base_folders.one(session, name, file, replicate, opened.model_roots)
    if isinstance(found, StoredFile):
        return file_answer(opened.sessions, found, request.headers, head=request.method == "HEAD")
    return _whole_file(found, head=request.method == "HEAD")


def _whole_file(found: PlacedFile | WrittenFile, *, head: bool) -> Response:
    """Return the answer with a file that is no artifact; ranges are not served."""
    headers = {
        "ETag": f'"{found.sha256()}"',
        "Content-Length": str(found.size),
        "Content-Disposition": f'attachment; filename="{found.filename}"',
        "X-Content-Type-Options": "nosniff",
        **NO_STORE,
    }
    if head:
        return Response(headers=headers, media_type=BYTES)
    return Pieces(found.pieces(), 200, headers, BYTES)


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
