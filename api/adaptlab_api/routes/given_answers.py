"""`/v1/jobs/{id}/answers`: test items with the answers that models gave."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query
from starlette.responses import Response

from adaptlab_answers.item_answers import ItemAnswers
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.dependencies import LooksDep, SessionDep
from adaptlab_api.requests.describing import failures
from adaptlab_api.requests.identities import LONGEST_ID, JobId, whole_id
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.results import given_answers
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
