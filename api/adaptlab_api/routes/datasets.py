"""`/v1/datasets`: words and records for tasks."""

from functools import partial
from typing import Annotated, cast

from fastapi import Path, Request
from pydantic import Discriminator, Tag
from starlette.responses import Response

from adaptlab_answers.models import DatasetView
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.answers.state import Resources
from adaptlab_api.doors.time_limit import SLOW_FACTOR
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import (
    ResourcesDep,
    SessionDep,
    SubmitterDep,
    Units,
    UnitsDep,
)
from adaptlab_api.requests.describing import WITH_BODY, created, failures
from adaptlab_api.requests.readings import READING_SHARE, busy, in_turn
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.files import file_route
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.models import (
    dataset_deletion,
    dataset_files,
    dataset_sharing,
    dataset_uploads,
    datasets,
    record_datasets,
    record_uploads,
)
from adaptlab_services.models.dataset_sharing import NewShare
from adaptlab_services.models.dataset_uploads import DatasetFromUpload
from adaptlab_services.models.datasets import NewDataset, Uploaded
from adaptlab_services.models.record_datasets import (
    NewRecords,
    ReadingLimits,
    RecordsFromFile,
    RecordsFromUpload,
)
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.people.tokens import Principal

Named = Annotated[str, Path(max_length=63)]
PATIENCE_SECONDS = 60.0


def _form(document: object) -> str:
    members = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    kind = "records" if "records" in (members.get("kind"), *members) else "words"
    if "file" in members:
        return "records_of_file"
    return f"{kind}_of_upload" if "upload" in members else f"{kind}_of_body"


Whole = NewDataset | NewRecords
Read = RecordsFromUpload | RecordsFromFile
_NEW = Annotated[
    Annotated[NewDataset, Tag("words_of_body")]
    | Annotated[DatasetFromUpload, Tag("words_of_upload")]
    | Annotated[NewRecords, Tag("records_of_body")]
    | Annotated[RecordsFromUpload, Tag("records_of_upload")]
    | Annotated[RecordsFromFile, Tag("records_of_file")],
    Discriminator(_form),
]
NewDatasetBody = Annotated[
    Body[Whole | DatasetFromUpload | Read],
    json_body(_NEW, NewDataset, DatasetFromUpload, NewRecords, RecordsFromUpload, RecordsFromFile),
]


router = api_router("/datasets", tag="datasets")


@router.post(
    "",
    status_code=201,
    response_model=DatasetView,
    responses={
        **created("dataset"),
        200: {"model": DatasetView, "description": "An equal dataset existed already."},
        **failures(404, 409, 429, *WITH_BODY),
    },
)
@needs("submitter")
async def upload_dataset(
    body: NewDatasetBody,
    request: Request,
    units: UnitsDep,
    who: SubmitterDep,
    opened: ResourcesDep,
) -> Response:
    """Create a dataset from words or records in the body, an upload or a file of the server.

    The file is below a dataset root, and its records are copied. Safe to repeat.
    """
    turn = turn_of(request)
    new = await turn.call(body.read)
    if not isinstance(new, Read):
        return _answer(await turn.call(_created, units, opened, who, new))
    reading = partial(stored_records, units, opened, who, new)
    stored = await in_turn(request, PATIENCE_SECONDS, reading)
    return busy() if stored is None else _answer(stored)


def _created(
    units: Units, opened: Resources, who: Principal, new: Whole | DatasetFromUpload
) -> Uploaded:
    with units() as session:
        match new:
            case NewDataset():
                return datasets.upload(session, who, new)
            case NewRecords():
                return record_datasets.create(session, who, new)
            case DatasetFromUpload():
                return dataset_uploads.from_upload(session, opened.sessions, who, new)


def stored_records(units: Units, opened: Resources, who: Principal, new: Read) -> Uploaded:
    """Create a dataset from an upload or a file of the server."""
    limits = reading_limits(opened)
    if isinstance(new, RecordsFromFile):
        roots = opened.dataset_roots
        return dataset_files.from_file(units, opened.sessions, who, new, roots, limits)
    return record_uploads.from_upload(units, opened.sessions, who, new, limits)


def reading_limits(opened: Resources) -> ReadingLimits:
    """Return the limits on reading a file for a new dataset."""
    seconds = READING_SHARE * SLOW_FACTOR * opened.settings.answer_seconds
    return ReadingLimits(opened.settings.max_dataset_bytes, seconds)


def _answer(stored: Uploaded) -> Response:
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


@router.delete("/{name}", status_code=204, responses=failures(404, 409))
@needs("submitter")
def delete_dataset(name: Named, session: SessionDep, _: SubmitterDep) -> Response:
    """Delete a dataset that no base model, study or unfinished job needs."""
    dataset_deletion.delete_dataset(session, name)
    return Response(status_code=204, headers=NO_STORE)


@router.post("/{name}/shares", response_model=DatasetView, responses=failures(404, 409, *WITH_BODY))
@needs("submitter")
def share_dataset(
    name: Named, body: Annotated[Body[NewShare], json_body(NewShare)], session: SessionDep
) -> Response:
    """Share a dataset with another project of yours, which can use it; safe to repeat.

    Its owner, or an admin of its project, can do this.
    """
    return json_answer(dataset_sharing.share(session, name, body.read()))


@router.delete("/{name}/shares/{project}", status_code=204, responses=failures(404, 409))
@needs("submitter")
def take_dataset_back(name: Named, project: Named, session: SessionDep) -> Response:
    """Stop sharing a dataset with a project that does not need it."""
    dataset_sharing.take_back(session, name, project)
    return Response(status_code=204, headers=NO_STORE)


@file_route(router, "/{name}/content")
@needs("reader")
def get_dataset_content(
    name: Named, request: Request, opened: ResourcesDep, opens: UnitsDep
) -> Response:
    """Get the words or records of an uploaded dataset, one JSON object per line."""
    with opens() as session:
        file = datasets.content(session, name)
    return file_answer(opened.sessions, file, request.headers, head=request.method == "HEAD")
