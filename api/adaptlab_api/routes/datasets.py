"""`/v1/datasets`: words for tasks."""

from typing import Annotated

from fastapi import Path, Request
from pydantic import Discriminator, Tag
from starlette.responses import Response

from adaptlab_answers.models import DatasetView
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import (
    ResourcesDep,
    SessionDep,
    SubmitterDep,
    UnitsDep,
)
from adaptlab_api.requests.describing import WITH_BODY, created, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.files import file_route
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.models import datasets
from adaptlab_services.models.dataset_uploads import DatasetFromUpload, from_upload
from adaptlab_services.models.datasets import NewDataset
from adaptlab_services.paging import DEFAULT_PAGE_SIZE

Named = Annotated[str, Path(max_length=63)]


def _form(document: object) -> str:
    is_upload = isinstance(document, dict) and "upload" in document
    return "of_upload" if is_upload else "of_triples"


_NEW = Annotated[
    Annotated[NewDataset, Tag("of_triples")] | Annotated[DatasetFromUpload, Tag("of_upload")],
    Discriminator(_form),
]
NewDatasetBody = Annotated[
    Body[NewDataset | DatasetFromUpload], json_body(_NEW, NewDataset, DatasetFromUpload)
]


router = api_router("/datasets", tag="datasets")


@router.post(
    "",
    status_code=201,
    response_model=DatasetView,
    responses={
        **created("dataset"),
        200: {"model": DatasetView, "description": "A dataset with these words existed already."},
        **failures(404, 409, *WITH_BODY),
    },
)
@needs("submitter")
def upload_dataset(
    body: NewDatasetBody, session: SessionDep, who: SubmitterDep, opened: ResourcesDep
) -> Response:
    """Create a dataset from words in the body or in an upload; safe to repeat."""
    new = body.read()
    if isinstance(new, DatasetFromUpload):
        stored = from_upload(session, opened.sessions, who, new)
    else:
        stored = datasets.upload(session, who, new)
    if not stored.is_new:
        return json_answer(stored.dataset)
    headers = {"Location": stored.dataset.links.self}
    return json_answer(stored.dataset, status=201, headers=headers)


@router.get("", response_model=Page[DatasetView], responses=failures())
@needs("reader")
def list_datasets(
    session: SessionDep, page_size: PageSize = DEFAULT_PAGE_SIZE, page_token: PageToken = None
) -> Response:
    """List datasets by name, including the generated one."""
    return json_answer(datasets.page(session, page_size, page_token))


@router.get("/{name}", response_model=DatasetView, responses=failures(404))
@needs("reader")
def get_dataset(name: Named, session: SessionDep) -> Response:
    """Get the metadata of one dataset."""
    return json_answer(datasets.get(session, name))


@file_route(router, "/{name}/content")
@needs("reader")
def get_dataset_content(
    name: Named, request: Request, opened: ResourcesDep, opens: UnitsDep
) -> Response:
    """Get the words of an uploaded dataset, one JSON object per line."""
    with opens() as session:
        file = datasets.content(session, name)
    return file_answer(opened.sessions, file, request.headers, head=request.method == "HEAD")
