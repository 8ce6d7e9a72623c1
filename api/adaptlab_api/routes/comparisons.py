"""`/v1/studies/{id}/comparison` and `/v1/comparison`, as JSON or CSV."""

from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from adaptlab_answers.comparisons import ComparisonProgress, JobComparisonView, StudyComparisonView
from adaptlab_api.answers.answers import NO_STORE, json_answer, tagged_answer
from adaptlab_api.requests.dependencies import ResourcesDep, UnitsDep
from adaptlab_api.requests.describing import Described, failures, succeeds
from adaptlab_api.requests.identities import LONGEST_ID
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.studies import Studied
from adaptlab_services import short_ids
from adaptlab_services.comparisons.comparison_inputs import (
    DEFAULT_LEVEL,
    DEFAULT_MARGIN,
    Strictness,
)
from adaptlab_services.comparisons.comparison_table import csv_text
from adaptlab_services.comparisons.comparisons import MOST_JOBS, JobsQuestion, StudyQuestion
from adaptlab_services.comparisons.stored_comparison import StoredComparison

RETRY_SECONDS = 1
CSV = "text/csv"

Level = Annotated[
    float, Query(ge=0.5, le=0.999, description="The confidence level of every interval.")
]
Margin = Annotated[
    float,
    Query(
        ge=0,
        le=1,
        description="The difference, a fraction of test items, below which methods count as alike.",
    ),
]
Format = Annotated[
    Literal["json", "csv"] | None,
    Query(alias="format", description="Default: the type in the `Accept` header, or JSON."),
]
ShortText = Annotated[str, StringConstraints(max_length=LONGEST_ID)]
Jobs = Annotated[
    list[ShortText],
    Query(
        alias="job",
        min_length=1,
        max_length=MOST_JOBS,
        description="A job to compare, by its id or a unique part of it; repeatable. Jobs of one "
        "configuration share a row.",
    ),
]


router = api_router(tag="comparisons")


def _answers() -> Described:
    good = succeeds(200, "The comparison; as CSV, one line per row of a cell.", CSV)
    unchanged = succeeds(304, "The comparison has not changed.")
    progress = succeeds(
        202, "The comparison is being computed.", Retry_After="Seconds until the next request."
    )
    progress[202] |= {"model": ComparisonProgress}
    del progress[202]["content"]
    return good | progress | unchanged | failures(404)


@router.get("/studies/{study}/comparison", response_model=StudyComparisonView, responses=_answers())
@needs("reader")
def get_study_comparison(
    study: Studied,
    units: UnitsDep,
    request: Request,
    opened: ResourcesDep,
    level: Level = DEFAULT_LEVEL,
    margin: Margin = DEFAULT_MARGIN,
    format_: Format = None,
) -> Response:
    """Get the scores, verdicts and diagnoses of a study, and the scores still missing.

    If the computation takes longer than a second, the answer is 202 with the number of tables that
    are ready. Repeat the request after `Retry-After` seconds. Computed tables are kept until one of
    their jobs ends.
    """
    question = StudyQuestion(study, Strictness(level=level, margin=margin))
    return _answer(opened.comparisons.answer(units, question), request, format_)


@router.get("/comparison", response_model=JobComparisonView, responses=_answers())
@needs("reader")
def get_comparison(
    units: UnitsDep,
    request: Request,
    opened: ResourcesDep,
    job_ids: Jobs,
    level: Level = DEFAULT_LEVEL,
    margin: Margin = DEFAULT_MARGIN,
    format_: Format = None,
) -> Response:
    """Compare any adaptations, one table per task, with the settings in which they differ.

    If the computation takes longer than a second, the answer is 202; repeat after `Retry-After`
    seconds.
    """
    with units() as session:
        named = tuple(dict.fromkeys(short_ids.job_id(session, text) for text in job_ids))
    question = JobsQuestion(named, Strictness(level=level, margin=margin))
    return _answer(opened.comparisons.answer(units, question), request, format_)


def _answer(
    found: StoredComparison | ComparisonProgress, request: Request, format_: str | None
) -> Response:
    if isinstance(found, ComparisonProgress):
        return json_answer(found, status=202, headers={"Retry-After": str(RETRY_SECONDS)})
    wants_csv = CSV in request.headers.get("accept", "") if format_ is None else format_ == "csv"
    if wants_csv:
        return Response(csv_text(found.whole()), headers=NO_STORE, media_type=CSV)
    return tagged_answer(found.whole(), request.headers)
