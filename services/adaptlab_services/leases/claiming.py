"""Claims: the choice of a job for a worker, and the answer to the worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Double,
    Select,
    Update,
    bindparam,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.tables import Job
from adaptlab_services.leases import run_inputs
from adaptlab_services.leases.expected_end import ends_within
from adaptlab_services.leases.next_job import next_job
from adaptlab_services.lifecycle import training_states, workers
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.lifecycle.transitions import Change, Moved, move
from adaptlab_services.limits import limits

MOST_PASSED_OVER = 20


def taken_before(
    session: Session, worker_id: UUID, claim_id: UUID, lease_seconds: float
) -> Moved | None:
    """Return the job that an earlier request with this id claimed.

    The worker never got the answer to that request. Renews the job's lease, and records a sign of
    life of the worker.
    """
    values = {"worker": worker_id, "claim": claim_id, "seconds": lease_seconds}
    options = {"synchronize_session": False}
    row = session.execute(_renewed(), values, execution_options=options).one_or_none()
    return None if row is None else Moved(*row)


@cache
def _renewed() -> Update:
    return (
        update(Job)
        .where(Job.claim_id == bindparam("claim"), Job.state == literal_column("'running'"))
        .values(lease_expires_at=seconds_from_now(bindparam("seconds", type_=Double)))
        .returning(Job.id, Job.state, Job.kind, Job.queue, Job.attempt, Job.event_sequence)
        .add_cte(workers.looking("worker").cte("looking"))
    )


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The jobs that a worker would take.

    Attributes:
        queues: the queues of which it takes the most urgent job.
        most_running: number of jobs of one owner that run at a time; None for no limit.
        project_id: the only project whose jobs it can have; None for any.
        within_seconds: time in which the job is expected to end; None for any.
        job_id: the only job that it can have; None for any.
        model_roots: the only model roots that the job may need; None for any.
    """

    queues: Sequence[str]
    most_running: int | None = None
    project_id: int | None = None
    within_seconds: float | None = None
    job_id: UUID | None = None
    model_roots: Sequence[str] | None = None


def take(
    session: Session, worker_id: UUID, request: ClaimRequest, claim_id: UUID, lease_seconds: float
) -> Moved | None:
    """Claim the most urgent job that the worker would take, if there is one.

    At most `MOST_PASSED_OVER` jobs that would take too long are passed over.
    """
    if request.most_running is not None:
        limits.claim_in_turn(session)
    change = _to_running(worker_id, claim_id, lease_seconds)
    if request.within_seconds is None:
        return _first(session, request, change)
    too_long: list[UUID] = []
    while len(too_long) < MOST_PASSED_OVER:
        with session.begin_nested() as attempted:
            moved = _first(session, request, change, too_long)
            if moved is None or ends_within(session, moved.job_id, request.within_seconds):
                return moved
            attempted.rollback()  # undoes the claim, and unlocks the job for others
        too_long.append(moved.job_id)
    return None


def _first(
    session: Session, request: ClaimRequest, change: Change, passed_over: Sequence[UUID] = ()
) -> Moved | None:
    best = next_job(
        request.queues,
        request.most_running,
        request.project_id,
        passed_over,
        request.job_id,
        request.model_roots,
    )
    moved = move(session, [Job.id == best, Job.state == "queued"], change)
    return moved[0] if moved else None


def _to_running(worker_id: UUID, claim_id: UUID, lease_seconds: float) -> Change:
    return Change(
        "running",
        also={
            Job.attempt: Job.attempt + 1,
            Job.claim_id: claim_id,
            Job.worker_id: worker_id,
            Job.lease_expires_at: seconds_from_now(lease_seconds),
            Job.heartbeat_at: func.clock_timestamp(),
            Job.started_at: func.coalesce(Job.started_at, func.clock_timestamp()),
            Job.step: 0,
            Job.phase: None,
        },
        data={"worker": str(worker_id)},
    )


def claim_of(session: Session, taken: Moved, claim_id: UUID, lease_seconds: float) -> Claim:
    """Return the claim of a job.

    Raises `ValidationError` or `InvalidSpec` for a spec that cannot be read.
    """
    job = session.execute(_claimed(), {"job": taken.job_id}).one()
    resolved = ResolvedSpec.model_validate(job.resolved_spec)
    # Only an earlier attempt can have saved a state.
    is_first = taken.attempt == 1
    resume = None if is_first else training_states.take_over(session, taken.job_id, taken.attempt)
    return Claim(
        job_id=taken.job_id,
        attempt=taken.attempt,
        claim_id=claim_id,
        resolved_spec=resolved,
        max_seconds=job.max_seconds,
        lease_seconds=lease_seconds,
        inputs=run_inputs.of_job(session, taken.job_id, job, resolved, resume),
        strict=job.self_fence == "strict",
    )


@cache
def _claimed() -> Select[*tuple[Any, ...]]:  # columns of several types
    fence = Job.spec[("resources", "self_fence")].astext.label("self_fence")
    return run_inputs.needed(Job.max_seconds, fence)


def unreadable(error: ValidationError | InvalidSpec) -> Change:
    """Return the end of a job that no worker of this version can run."""
    detail = f"This version cannot read the stored spec. Create the job again. {error}"
    return Change("failed", "system_error", detail)


def queues_with_work(session: Session) -> tuple[str, ...]:
    """Return the queues in which a job could be claimed now, sorted."""
    return tuple(
        session.scalars(select(Job.queue).where(*_eligible()).distinct().order_by(Job.queue))
    )


def seconds_from_now(seconds: float | BindParameter[float]) -> ColumnElement[object]:
    """A time after now, by the database's clock."""
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _eligible() -> tuple[ColumnElement[bool], ...]:
    return (
        Job.state == "queued",
        Job.run_at <= func.clock_timestamp(),
        Job.cancel_requested_at.is_(None),
    )
