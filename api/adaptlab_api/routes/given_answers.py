"""`/v1/jobs/{id}/answers`: test items with the answers that models gave."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query, Request
from starlette.responses import Response

from adaptlab_answers.item_answers import ItemAnswers
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.files import CACHE, has_current
from adaptlab_api.requests.dependencies import LooksDep, ResourcesDep, SessionDep, UnitsDep
from adaptlab_api.requests.describing import failures, succeeds
from adaptlab_api.requests.identities import LONGEST_ID, JobId, whole_id
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.results import given_answers, item_pictures
from adaptlab_services.results.given_answers import AnswerFilter, Outcome

OfTask = Annotated[
    str | None, Query(max_length=63, description="Only items of tasks with this name.")
]
OfTaskPlace = Annotated[
    int | None,
    Query(ge=0, le=2**31 - 1, description="Only items of the scored task at this place, from 0."),
]
OfSeed = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="Only answers for this seed.")]
OfOutcome = Annotated[
    Outcome | None, Query(description="Only items whose attached answer has this outcome.")
]
Differs = Annotated[
    bool, Query(description="Only items whose attached and detached answers differ.")
]
OtherJob = Annotated[
    str | None,
    Query(
        alias="with",
        max_length=LONGEST_ID,
        description="The id of another job. Only items for which its attached answer for the same "
        "seed differs; that answer is returned as `other`.",
    ),
]


async def _other(opens: LooksDep, other: OtherJob = None) -> UUID | None:
    return None if other is None else await whole_id(other, opens)


async def _wanted(
    other: Annotated[UUID | None, Depends(_other)],
    task: OfTask = None,
    task_place: OfTaskPlace = None,
    seed: OfSeed = None,
    outcome: OfOutcome = None,
    differs: Differs = False,
) -> AnswerFilter:
    return AnswerFilter(task, task_place, seed, outcome, differs, other)


TaskPlace = Annotated[int, Path(ge=0, le=2**31 - 1, description="The task's place, from 0.")]
Item = Annotated[int, Path(ge=0, le=2**31 - 1, description="The item's number, from 0.")]
PNG = "image/png"

router = api_router("/jobs/{job_id}/answers", tag="results")


@router.get("", response_model=Page[ItemAnswers], responses=failures(404))
@needs("reader")
def list_answers(
    job_id: JobId,
    session: SessionDep,
    wanted: Annotated[AnswerFilter, Depends(_wanted)],
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List the first test items with expected and given answers, attached and detached."""
    return json_answer(given_answers.page(session, job_id, wanted, page_size, page_token))


@router.get(
    "/{task_place}/{item}/picture",
    response_class=Response,
    responses=succeeds(200, "The image as a PNG.", PNG) | failures(404),
)
@needs("reader")
def get_picture(
    job_id: JobId,
    task_place: TaskPlace,
    item: Item,
    request: Request,
    opened: ResourcesDep,
    opens: UnitsDep,
) -> Response:
    """Get the picture of a test item, if items of its task are images."""
    with opens() as session:
        place = item_pictures.place_of(session, job_id, task_place, item)
    headers = {"ETag": f'"{place.digest}"', "Cache-Control": CACHE}
    if has_current(request.headers, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    headers["X-Content-Type-Options"] = "nosniff"
    return Response(item_pictures.png(opened.sessions, place), headers=headers, media_type=PNG)
