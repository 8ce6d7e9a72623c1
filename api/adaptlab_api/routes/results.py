"""`/v1/jobs/{id}/…`: the results of a job."""

from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from adaptlab_answers.results import (
    Attempts,
    CheckpointList,
    CurvesView,
    Evaluations,
    OutcomeList,
    Replicates,
    TheoryChecks,
)
from adaptlab_api.answers.answers import json_answer, tagged_answer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.describing import failures, succeeds
from adaptlab_api.requests.identities import JobId
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.results import checkpoints, results
from adaptlab_services.results.results import LARGEST_CURVE

PACKED = "application/octet-stream"
LARGEST_ID = 2**63 - 1

RowId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Replicate = Annotated[int, Query(ge=0, le=2**31 - 1)]
Names = Annotated[list[str], Query(max_length=64, description="Only these metrics.")]
OfReplicates = Annotated[
    list[Replicate], Query(max_length=4096, description="Only these replicates.")
]
MaxPoints = Annotated[
    int, Query(ge=2, le=LARGEST_CURVE, description="Thin curves with more points than this.")
]
OfAttached = Annotated[
    bool | None,
    Query(
        description="Only scores with the adaptation attached (true), or only those of the base "
        "model on its own (false)."
    ),
]


router = api_router("/jobs/{job_id}", tag="results")


@router.get(
    "/metrics",
    response_model=CurvesView,
    responses=succeeds(304, "Nothing has changed.") | failures(404),
)
@needs("reader")
def get_metrics(
    job_id: JobId,
    request: Request,
    session: SessionDep,
    names: Names = [],  # noqa: B006 - FastAPI copies it
    replicates: OfReplicates = [],  # noqa: B006 - FastAPI copies it
    max_points: MaxPoints = 1000,
) -> Response:
    """Get the learning curves of a job."""
    curves = results.metrics(session, job_id, names, replicates, max_points)
    return tagged_answer(curves, request.headers)


@router.get("/replicates", response_model=Replicates, responses=failures(404))
@needs("reader")
def get_replicates(job_id: JobId, session: SessionDep) -> Response:
    """Get the outcome of every seed and trial of a job."""
    return json_answer(results.replicates(session, job_id))


@router.get("/attempts", response_model=Attempts, responses=failures(404))
@needs("reader")
def get_attempts(job_id: JobId, session: SessionDep) -> Response:
    """Get the attempts at a job, with host and environment."""
    return json_answer(results.attempts(session, job_id))


@router.get("/evaluations", response_model=Evaluations, responses=failures(404))
@needs("reader")
def get_evaluations(job_id: JobId, session: SessionDep, attached: OfAttached = None) -> Response:
    """Get the scores of a job and of its base model on the same items."""
    return json_answer(results.evaluations(session, job_id, attached))


@router.get(
    "/evaluations/{evaluation_id}/outcomes",
    response_model=OutcomeList,
    responses=succeeds(200, "The outcomes; if packed, one bit per item.", PACKED) | failures(404),
)
@needs("reader")
def get_outcomes(
    job_id: JobId, evaluation_id: RowId, request: Request, session: SessionDep
) -> Response:
    """Get the outcome of every item, or with `Accept: application/octet-stream`, packed bits."""
    evaluation = results.outcomes(session, job_id, evaluation_id)
    if PACKED in request.headers.get("accept", ""):
        return Response(evaluation.bits, media_type=PACKED)
    listed = OutcomeList(
        evaluation_id=evaluation.evaluation_id,
        total=evaluation.total,
        outcomes=evaluation.booleans(),
    )
    return json_answer(listed)


@router.get("/checkpoints", response_model=CheckpointList, responses=failures(404))
@needs("reader")
def get_checkpoints(job_id: JobId, session: SessionDep) -> Response:
    """Get the checkpoints of a job."""
    return json_answer(checkpoints.of_job(session, job_id))


@router.get("/theory", response_model=TheoryChecks, responses=failures(404))
@needs("reader")
def get_theory(job_id: JobId, session: SessionDep) -> Response:
    """Get the results of a job's theory checks."""
    return json_answer(results.theory(session, job_id))
