"""How a worker takes a job: which one is next, and what the worker is told about it."""

from collections.abc import Sequence
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import ColumnElement, ScalarSelect, func, insert, select, update
from sqlalchemy.orm import Session, aliased

from adaptlab.spec import ResolvedSpec
from adaptlab_db.tables import Attempt, BaseModel, Checkpoint, Job
from adaptlab_services import adaptations, limits, training_states
from adaptlab_services.claims import BaseWeights, Claim
from adaptlab_services.transitions import Change, Moved, move


def taken_before(session: Session, claim_id: UUID, lease_seconds: float) -> Moved | None:
    """The job that an earlier request of this name took, its lease begun anew.

    The worker was never told of it, because the answer was lost.
    """
    row = session.execute(
        update(Job)
        .where(Job.claim_id == claim_id, Job.state == "running")
        .values(lease_expires_at=seconds_from_now(lease_seconds))
        .returning(Job.id, Job.state, Job.kind, Job.queue, Job.attempt, Job.event_sequence)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    return None if row is None else Moved(*row)


def take(
    session: Session,
    worker_id: UUID,
    queues: Sequence[str],
    claim_id: UUID,
    lease_seconds: float,
    most_running: int | None,
) -> Moved | None:
    """Take the most urgent job of these queues; None when there is none.

    `most_running` is how many jobs of one owner may run at a time; None sets no limit.
    """
    if most_running is not None:
        limits.claim_in_turn(session)
    best = _most_urgent(queues, most_running)
    change = _to_running(worker_id, claim_id, lease_seconds)
    moved = move(session, [Job.id == best, Job.state == "queued"], change)
    if not moved:
        return None
    of_worker = {"worker_id": worker_id, "claim_id": claim_id}
    row = {"job_id": moved[0].job_id, "attempt": moved[0].attempt, **of_worker}
    session.execute(insert(Attempt), [row])
    return moved[0]


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
        },
        data={"worker": str(worker_id)},
    )


def claim_of(session: Session, taken: Moved, claim_id: UUID, lease_seconds: float) -> Claim:
    """What the worker is told; raises `ValidationError` for a spec that cannot be read."""
    fence = Job.spec[("resources", "self_fence")].astext.label("self_fence")
    job = session.execute(
        select(Job.resolved_spec, Job.max_seconds, Job.base_model, fence).where(
            Job.id == taken.job_id
        )
    ).one()
    resolved = ResolvedSpec.model_validate(job.resolved_spec)
    return Claim(
        job_id=taken.job_id,
        attempt=taken.attempt,
        claim_id=claim_id,
        resolved_spec=resolved,
        max_seconds=job.max_seconds,
        bases=_bases(session, taken.job_id),
        lease_seconds=lease_seconds,
        resume=training_states.take_over(session, taken.job_id, taken.attempt),
        adapters=tuple(adaptations.weights(session, resolved)),
        strict=job.self_fence == "strict",
    )


def unreadable(error: ValidationError) -> Change:
    """What becomes of a job that no worker of this version can run."""
    told = f"The stored spec cannot be read by this version; create the job anew. {error}"
    return Change("failed", "system_error", told)


def queues_with_work(session: Session) -> tuple[str, ...]:
    """The queues in which a job could be claimed now, sorted."""
    return tuple(
        session.scalars(select(Job.queue).where(*_eligible()).distinct().order_by(Job.queue))
    )


def seconds_from_now(seconds: float) -> ColumnElement[object]:
    """A moment by the database's clock."""
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _eligible() -> tuple[ColumnElement[bool], ...]:
    return (
        Job.state == "queued",
        Job.run_at <= func.clock_timestamp(),
        Job.cancel_requested_at.is_(None),
    )


def _most_urgent(queues: Sequence[str], most_running: int | None) -> ScalarSelect[UUID]:
    """The job to take next: by priority, then of the owner with the least running, then oldest."""
    owner = Job.__table__.alias("running")
    busy = (
        select(owner.c.owner_id, func.count().label("jobs"))
        .where(owner.c.state == "running")
        .group_by(owner.c.owner_id)
        .subquery("busy")
    )
    may_run = [] if most_running is None else [limits.is_below(busy.c.jobs, most_running)]
    return (
        select(Job.id)
        .outerjoin(busy, busy.c.owner_id == Job.owner_id)
        .where(Job.queue.in_(queues), *_eligible(), *may_run)
        .order_by(Job.priority.desc(), func.coalesce(busy.c.jobs, 0), Job.created_at, Job.id)
        .limit(1)
        .with_for_update(of=Job, skip_locked=True)
        .scalar_subquery()
    )


def _bases(session: Session, job_id: UUID) -> tuple[BaseWeights, ...]:
    """The weights of a job's base model, if it has one: of its maker's last attempt."""
    adapting = aliased(Job)
    named = (BaseModel.name == adapting.base_model) & (BaseModel.project_id == adapting.project_id)
    rows = session.execute(
        select(Checkpoint.replicate, Checkpoint.artifact_sha256)
        .join(Job, (Job.id == Checkpoint.job_id) & (Job.attempt == Checkpoint.attempt))
        .join(BaseModel, BaseModel.job_id == Job.id)
        .join(adapting, named)
        .where(adapting.id == job_id, Checkpoint.kind == "base_model")
        .order_by(Checkpoint.replicate)
    )
    return tuple(BaseWeights(replicate, sha256) for replicate, sha256 in rows)
