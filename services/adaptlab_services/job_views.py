"""A job as everybody sees it: the JSON of `/v1/jobs/{id}`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    DateTime,
    Integer,
    Row,
    Select,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    func,
    or_,
    select,
)
from sqlalchemy.orm import Session

from adaptlab.budget import BudgetVector
from adaptlab.spec import ResolvedSpec
from adaptlab.values import Value
from adaptlab_db.tables import TERMINAL_STATES, Attempt, BaseModel, Job, Project, User, Worker
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.moments import Moment

JsonObject = dict[str, object]
JobRow = Row[*tuple[Any, ...]] | SimpleNamespace  # columns of several types


class Progress(Value):
    """How far a job is; the estimate is there once the first step of this attempt is done."""

    step: int
    total: int
    eta_seconds: float | None


MOST_AHEAD = 500
"""Jobs are counted so far: what is behind more of them is far from its turn, wherever it is."""


class QueuePlace(Value):
    """Where a job waits.

    `position` counts from 1. It is told for one queued job at a time, and is null with more than
    500 jobs ahead.
    """

    name: str
    priority: int
    position: int | None


class WorkerReference(Value):
    """The worker that holds a job."""

    id: UUID
    host: str | None


class JobLinks(Value):
    """Where to go from a job."""

    self: str
    events: str
    metrics: str
    replicates: str
    attempts: str
    evaluations: str
    attention: str
    checkpoints: str
    theory: str
    cancel: str
    pause: str
    resume: str
    retry: str
    base_job: str | None
    studies: str


class JobView(Value):
    """One job: what was asked for, what it became, and how far it is.

    `state` is one of waiting, queued, running, paused, succeeded, failed and cancelled; more may
    be added, so programs ask `terminal`. `spec` is what was asked for, without the defaults,
    and can be posted again; `resolved_spec` is what every `auto` became. `retry_of` is the job that
    this one does anew.
    """

    id: UUID
    object: Literal["job"] = "job"
    name: str | None
    kind: str
    state: str
    terminal: bool
    reason: str | None
    error: str | None
    cancel_requested: bool
    pause_requested: bool
    retry_of: UUID | None
    attempt: int
    attempts_max: int
    base_model: str | None
    family: str
    task: str | None
    method: str | None
    # A stored spec is shown as it was accepted, and never validated again: limits change.
    spec: JsonObject
    resolved_spec: ResolvedSpec
    spec_digest: str
    budget: BudgetVector
    progress: Progress
    queue: QueuePlace
    worker: WorkerReference | None
    owner: str
    project: str
    labels: dict[str, str]
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    heartbeat_at: Moment | None
    links: JobLinks


@cache
def job_rows() -> Select[*tuple[Any, ...]]:  # columns of several types
    """Jobs with all that a view needs of them; refine it and give the rows to `job_view`.

    Made once: that took a thirtieth of a page of jobs. Columns and not objects of the ORM, which
    took a third of it.
    """
    return (
        select(
            *(getattr(Job, name) for name in _SHOWN),
            User.name.label("owner"),
            Project.name.label("project"),
            Worker.host.label("host"),
            Attempt.first_step_at,
            BaseModel.job_id.label("base_job_id"),
            func.clock_timestamp().label("now"),
        )
        .join(User, User.id == Job.owner_id)
        .join(Project, Project.id == Job.project_id)
        .outerjoin(Worker, Worker.id == Job.worker_id)
        .outerjoin(Attempt, (Attempt.job_id == Job.id) & (Attempt.attempt == Job.attempt))
        .outerjoin(
            BaseModel,
            (BaseModel.name == Job.base_model) & (BaseModel.project_id == Job.project_id),
        )
    )


_SHOWN = (
    *("id", "kind", "state", "reason", "error", "cancel_requested_at", "pause_requested_at"),
    *("retry_of", "attempt", "attempts_max", "base_model", "family", "task", "method", "spec"),
    *("resolved_spec", "spec_digest", "step", "total_steps", "queue", "priority", "worker_id"),
    *("labels", "created_at", "started_at", "finished_at", "heartbeat_at"),
)


def job_views(session: Session, job_ids: Sequence[UUID]) -> tuple[JobView, ...]:
    """The views of these jobs, in this order; of those that are not seen there is none."""
    found = session.execute(_rows_of(), {"job_ids": list(job_ids)})
    return tuple(job_view(row) for row in found)


@cache
def _rows_of() -> Select[*tuple[Any, ...]]:
    """One statement, however many jobs are asked for, so that the database plans it once."""
    job_ids = bindparam("job_ids", type_=ARRAY(Uuid[UUID]()))
    return job_rows().where(Job.id == any_(job_ids)).order_by(func.array_position(job_ids, Job.id))


def job_view(row: JobRow, position: int | None = None) -> JobView:
    """The view of one row of `job_rows`."""
    resolved = ResolvedSpec.model_validate(row.resolved_spec)
    return JobView(
        id=row.id,
        name=row.spec.get("name"),
        kind=row.kind,
        state=row.state,
        terminal=row.state in TERMINAL_STATES,
        reason=row.reason,
        error=row.error,
        cancel_requested=row.cancel_requested_at is not None,
        pause_requested=row.pause_requested_at is not None,
        retry_of=row.retry_of,
        attempt=row.attempt,
        attempts_max=row.attempts_max,
        base_model=row.base_model,
        family=row.family,
        task=row.task,
        method=row.method,
        spec=row.spec,
        resolved_spec=resolved,
        spec_digest=row.spec_digest,
        budget=resolved.budget,
        progress=_progress(row),
        queue=QueuePlace(name=row.queue, priority=row.priority, position=position),
        worker=WorkerReference(id=row.worker_id, host=row.host) if row.worker_id else None,
        owner=row.owner,
        project=row.project,
        labels=row.labels,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        heartbeat_at=row.heartbeat_at,
        links=_links(row.id, row.base_job_id),
    )


def queue_position(session: Session, job: JobRow) -> int | None:
    """How many queued jobs a worker would take before this one, plus one.

    None if it is not queued, or behind more than `MOST_AHEAD`. Fairness between owners can change
    the order, so this is an estimate.
    """
    if job.state != "queued":
        return None
    place = {"queue": job.queue, "priority": job.priority, "created_at": job.created_at}
    ahead = session.execute(_AHEAD, place, execution_options=ACROSS_PROJECTS).scalar_one()
    return position_after(ahead)


def position_after(ahead: int) -> int | None:
    """The place behind so many jobs, None if they were not all counted."""
    return ahead + 1 if ahead <= MOST_AHEAD else None


def jobs_ahead(
    queue: ColumnElement[str], priority: ColumnElement[int], created_at: ColumnElement[datetime]
) -> Select[int]:
    """How many queued jobs are before a place in a queue, counted to one more than `MOST_AHEAD`."""
    other = _JOBS.alias("other")
    is_before = or_(
        other.c.priority > priority,
        and_(other.c.priority == priority, other.c.created_at < created_at),
    )
    found = (
        select(other.c.id)
        .where(other.c.state == "queued", other.c.queue == queue, is_before)
        .limit(MOST_AHEAD + 1)
    )
    return select(func.count()).select_from(found.subquery())


_JOBS = Job.metadata.tables[Job.__tablename__]
_AHEAD = jobs_ahead(
    bindparam("queue", type_=Text()),
    bindparam("priority", type_=Integer()),
    bindparam("created_at", type_=DateTime(timezone=True)),
)


def _progress(job: JobRow) -> Progress:
    remaining: float | None = None
    if job.state == "running" and job.first_step_at is not None and job.step > 0:
        spent = max(job.now - job.first_step_at, timedelta()).total_seconds()
        remaining = round(spent / job.step * max(job.total_steps - job.step, 0), 1)
    return Progress(step=job.step, total=job.total_steps, eta_seconds=remaining)


def _links(job_id: UUID, base_job_id: UUID | None) -> JobLinks:
    place = f"/v1/jobs/{job_id}"
    return JobLinks(
        self=place,
        events=f"{place}/events",
        metrics=f"{place}/metrics",
        replicates=f"{place}/replicates",
        attempts=f"{place}/attempts",
        evaluations=f"{place}/evaluations",
        attention=f"{place}/attention",
        checkpoints=f"{place}/checkpoints",
        theory=f"{place}/theory",
        cancel=f"{place}/cancel",
        pause=f"{place}/pause",
        resume=f"{place}/resume",
        retry=f"{place}/retry",
        base_job=f"/v1/jobs/{base_job_id}" if base_job_id else None,
        studies=f"/v1/studies?job={job_id}",
    )
