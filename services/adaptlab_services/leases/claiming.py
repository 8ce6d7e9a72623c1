"""Claims: the choice of a job for a worker, and the answer to the worker."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Double,
    ScalarSelect,
    Select,
    Update,
    bindparam,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session, aliased

from adaptlab.specs.resolved import datasets_of, readable
from adaptlab.specs.spec import ModelFolder, ResolvedSpec
from adaptlab_db.tables import BaseModel, Checkpoint, Job, TrainingState
from adaptlab_services.leases.foreseen import ends_within
from adaptlab_services.leases.next_job import next_job
from adaptlab_services.lifecycle import adaptations, training_states, workers
from adaptlab_services.lifecycle.claims import BaseWeights, Claim, OtherWeights
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
        },
        data={"worker": str(worker_id)},
    )


def claim_of(session: Session, taken: Moved, claim_id: UUID, lease_seconds: float) -> Claim:
    """Return the claim of a job.

    Raises `ValidationError` for a spec that cannot be read.
    """
    job = session.execute(_needed(), {"job": taken.job_id}).one()
    resolved = ResolvedSpec.model_validate(job.resolved_spec)
    # Only an earlier attempt can have saved a state.
    is_first = taken.attempt == 1
    return Claim(
        job_id=taken.job_id,
        attempt=taken.attempt,
        claim_id=claim_id,
        resolved_spec=resolved,
        max_seconds=job.max_seconds,
        bases=tuple(BaseWeights(replicate, sha256) for replicate, sha256 in job.bases or ()),
        model_folder=_folder(job, resolved),
        lease_seconds=lease_seconds,
        resume=None
        if is_first
        else training_states.take_over(session, taken.job_id, taken.attempt),
        adapters=tuple(adaptations.weights(session, resolved)),
        others=tuple(_others(session, taken.job_id, resolved)),
        strict=job.self_fence == "strict",
    )


def _folder(job: Any, resolved: ResolvedSpec) -> ModelFolder | None:  # a row of `_needed`
    """Return the folder from which a run reads weights, if there is one."""
    if not job.bases and job.base_folder is not None:
        return ModelFolder.model_validate(job.base_folder)
    return resolved.model_folder


def to_fetch(session: Session, job_id: UUID) -> frozenset[str]:
    """Return the SHA-256 of everything that a run needs.

    These are the weights, the datasets, the files of an uploaded model folder and the saved state.
    """
    job = session.execute(_needed(), {"job": job_id}).one()
    resolved = ResolvedSpec.model_validate(job.resolved_spec)
    folder = _folder(job, resolved)
    saved = select(TrainingState.artifact_sha256).where(TrainingState.job_id == job_id)
    return frozenset(
        [
            *(sha256 for _, sha256 in job.bases or ()),
            *(
                weights.sha256
                for other in _others(session, job_id, resolved)
                for weights in other.bases
            ),
            *(adapter.sha256 for adapter in adaptations.weights(session, resolved)),
            *(dataset.digest for dataset in datasets_of(readable(resolved))),
            *(file.sha256 for file in (folder.stored if folder else ())),
            *(file.sha256 for file in (resolved.adapter.stored if resolved.adapter else ())),
            *session.scalars(saved),
        ]
    )


@cache
def _needed() -> Select[*tuple[Any, ...]]:  # columns of several types
    fence = Job.spec[("resources", "self_fence")].astext.label("self_fence")
    columns = (
        *(Job.resolved_spec, Job.max_seconds, fence),
        *(_bases().label("bases"), _base_folder().label("base_folder")),
    )
    return select(*columns).where(Job.id == bindparam("job"))


def _bases() -> ScalarSelect[Any]:
    """Select the stored weights of a job's base model, if any.

    They come from the last attempt at training it.
    """
    maker = aliased(Job)
    pair = func.jsonb_build_array(Checkpoint.replicate, Checkpoint.artifact_sha256)
    return (
        select(func.jsonb_agg(aggregate_order_by(pair, Checkpoint.replicate)))
        .select_from(BaseModel)
        .join(maker, maker.id == BaseModel.job_id)
        .join(Checkpoint, (Checkpoint.job_id == maker.id) & (Checkpoint.attempt == maker.attempt))
        .where(_is_base_model(), Checkpoint.kind == "base_model")
        .correlate(Job)
        .scalar_subquery()
    )


def _others(session: Session, job_id: UUID, resolved: ResolvedSpec) -> Iterator[OtherWeights]:
    """Yield the weights of other base models on which a job is evaluated."""
    names = [other.name for other in resolved.evaluation_bases]
    if not names:
        return
    stored: dict[str, list[BaseWeights]] = {name: [] for name in names}
    for name, replicate, sha256 in session.execute(_stored(), {"job": job_id, "names": names}):
        stored[name].append(BaseWeights(replicate, sha256))
    for other in resolved.evaluation_bases:
        bases = tuple(stored[other.name])
        yield OtherWeights(other.name, bases, None if bases else other.folder)


@cache
def _stored() -> Select[str, int, str]:
    """Select the stored weights of named base models in a job's project."""
    maker = aliased(Job)
    return (
        select(BaseModel.name, Checkpoint.replicate, Checkpoint.artifact_sha256)
        .select_from(Job)
        .join(BaseModel, BaseModel.project_id == Job.project_id)
        .join(maker, maker.id == BaseModel.job_id)
        .join(Checkpoint, (Checkpoint.job_id == maker.id) & (Checkpoint.attempt == maker.attempt))
        .where(
            Job.id == bindparam("job"),
            BaseModel.name.in_(bindparam("names", expanding=True)),
            Checkpoint.kind == "base_model",
        )
        .order_by(BaseModel.name, Checkpoint.replicate)
    )


def _base_folder() -> ScalarSelect[Any]:
    """The model folder that a job's base model was imported from, if it was."""
    maker = aliased(Job)
    return (
        select(maker.resolved_spec["model_folder"])
        .select_from(BaseModel)
        .join(maker, maker.id == BaseModel.job_id)
        .where(_is_base_model())
        .correlate(Job)
        .scalar_subquery()
    )


def _is_base_model() -> ColumnElement[bool]:
    return (BaseModel.name == Job.base_model) & (BaseModel.project_id == Job.project_id)


def unreadable(error: ValidationError) -> Change:
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
