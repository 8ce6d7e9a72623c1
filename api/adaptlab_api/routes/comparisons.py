"""`/v1/studies/{id}/comparison` and `/v1/comparison`: what the scores say, as JSON or CSV."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from adaptlab_api.answers import NO_STORE, tagged_answer
from adaptlab_api.dependencies import SessionDep
from adaptlab_api.describing import Described, failures, succeeds
from adaptlab_api.routes.studies import Studied
from adaptlab_api.routing import api_router
from adaptlab_services import comparisons
from adaptlab_services.comparison_table import csv_text
from adaptlab_services.comparison_views import JobComparison, StudyComparison
from adaptlab_services.comparisons import (
    DEFAULT_LEVEL,
    DEFAULT_MARGIN,
    MOST_JOBS,
    Strictness,
)

CSV = "text/csv"

Level = Annotated[
    float, Query(ge=0.5, le=0.999, description="The confidence level of every interval.")
]
Margin = Annotated[
    float,
    Query(
        ge=0,
        le=1,
        description="The difference, as a share of test items, below which methods count as alike.",
    ),
]
Format = Annotated[
    Literal["json", "csv"] | None,
    Query(alias="format", description="Else as the header `Accept` says, else JSON."),
]
Jobs = Annotated[
    list[UUID],
    Query(
        alias="job",
        min_length=1,
        max_length=MOST_JOBS,
        description="A job to compare; repeatable. Jobs of one configuration share a row.",
    ),
]


def comparisons_router() -> APIRouter:
    """The routes of comparisons."""
    router = api_router(tag="comparisons")
    router.add_api_route(
        "/studies/{study}/comparison",
        get_study_comparison,
        response_model=StudyComparison,
        responses=_answers(),
    )
    router.add_api_route(
        "/comparison", get_comparison, response_model=JobComparison, responses=_answers()
    )
    return router


def get_study_comparison(
    study: Studied,
    session: SessionDep,
    request: Request,
    level: Level = DEFAULT_LEVEL,
    margin: Margin = DEFAULT_MARGIN,
    format_: Format = None,
) -> Response:
    """Get the scores, verdicts and diagnoses of a study, and what it lacks so far."""
    strictness = Strictness(level=level, margin=margin)
    return _answer(comparisons.of_study(session, study, strictness), request, format_)


def get_comparison(
    session: SessionDep,
    request: Request,
    job_ids: Jobs,
    level: Level = DEFAULT_LEVEL,
    margin: Margin = DEFAULT_MARGIN,
    format_: Format = None,
) -> Response:
    """Compare any adaptations, one table a task; settings in which they differ are named."""
    strictness = Strictness(level=level, margin=margin)
    return _answer(comparisons.of_jobs(session, job_ids, strictness), request, format_)


def _answer(comparison: JobComparison, request: Request, format_: str | None) -> Response:
    wants_csv = CSV in request.headers.get("accept", "") if format_ is None else format_ == "csv"
    if wants_csv:
        return Response(csv_text(comparison), headers=NO_STORE, media_type=CSV)
    return tagged_answer(comparison, request.headers)


def _answers() -> Described:
    good = succeeds(200, "The comparison; as a table, one line a row of a cell.", CSV)
    return good | succeeds(304, "The comparison has not changed.") | failures(404)
