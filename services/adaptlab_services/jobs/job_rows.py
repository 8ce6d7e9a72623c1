"""How a job is written when it is created: its row and its first event, one or many at once."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Select, Uuid, bindparam, insert, or_, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from adaptlab.specs.spec import AnySpec, ResolvedSpec
from adaptlab_answers.jobs import JobView
from adaptlab_db.tables import Job, JobEvent
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.jobs.job_views import job_view, jobs_ahead, position_after
from adaptlab_services.limits import quotas
from adaptlab_services.models import base_models
from adaptlab_services.people import access, audit
from adaptlab_services.people.audit import Entry
from adaptlab_services.people.tokens import Principal


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is to be created; it waits while its base model is not there.

    `ready_base` is the job that has made the base model, if one did by what is remembered.
    """

    spec: AnySpec
    resolved: ResolvedSpec
    digest: str
    state: Literal["waiting", "queued"]
    ready_base: UUID | None = None


def insert_jobs(session: Session, principal: Principal, new: Sequence[NewJob]) -> tuple[UUID, ...]:
    """Write jobs by two statements, however many they are; returns their ids in order.

    They go into the project of the unit of work. Raises `Forbidden` for who may not submit there.
    """
    if not new:
        return ()
    ids = tuple(uuid.uuid4() for _ in new)
    place = _place(session, principal)
    rows = [place | _row(job_id, job) for job_id, job in zip(ids, new, strict=True)]
    session.execute(insert(Job), rows)
    events = [_event(principal, job_id, job) for job_id, job in zip(ids, new, strict=True)]
    session.execute(insert(JobEvent), events)
    return ids


@dataclass(frozen=True, slots=True)
class WrittenJob:
    """A job that was written just now, and its place in its queue if it waits in one.

    `columns` are its row: what becomes of the job later is not seen in them. `has_base` says
    whether its `ready_base` is there, and `allowance` what its owner may use.
    """

    id: UUID
    columns: Mapping[str, Any]  # of any type
    position: int | None
    has_base: bool
    allowance: quotas.Allowance

    @property
    def wakes(self) -> tuple[str, ...]:
        """The queue in which it can be claimed, if it does not wait."""
        return (self.columns["queue"],) if self.columns["state"] == "queued" else ()

    def view(self, owner: str, project: str, base_job_id: UUID | None) -> JobView:
        """As everybody sees it, without reading back what is known."""
        checks = tuple(check["name"] for check in self.columns["resolved_spec"]["checks"])
        said = {"name": self.columns["spec"].get("name"), "checks": checks}
        beside = {"owner": owner, "project": project, "base_job_id": base_job_id} | said
        of_runs = {"host": None, "first_step_at": None, "now": self.columns["created_at"]}
        return job_view({**self.columns, **beside, **of_runs}, self.position)


def insert_job(
    session: Session, principal: Principal, new: NewJob, entry: Entry | None = None
) -> WrittenJob:
    """Write one job as `insert_jobs` does, by one statement that also says where it waits.

    An `entry` of the audit log, whose object is the job, is written with it.
    """
    job_id = uuid.uuid4()
    row = _place(session, principal) | _row(job_id, new)
    given = {f"new_{name}": value for name, value in row.items()}
    given["event"] = _event(principal, job_id, new)["data"]
    given["ready_base"] = new.ready_base
    # Whose job it is was checked above; places count whatever the project.
    options = dict(ACROSS_PROJECTS)
    if entry is not None:
        given |= audit.given(entry, job_id)
    writing = _writing(is_noted=entry is not None)
    found = session.execute(writing, given, execution_options=options).one()
    told = {name: getattr(found, name) for name in _TOLD}
    # Not a Job: the ORM takes as long to make one as to have it written.
    columns = {**_UNSAID, **row, **told}
    position = position_after(found.ahead) if new.state == "queued" else None
    allowance = quotas.allowance(session, found)
    return WrittenJob(job_id, columns, position, found.has_base, allowance)


_JOBS = Job.metadata.tables[Job.__tablename__]
_EVENTS = JobEvent.metadata.tables[JobEvent.__tablename__]
_GIVEN = (
    *("id", "owner_id", "project_id", "state", "kind", "base_model", "family", "task", "method"),
    *("budget_requested", "trainable_parameters", "spec", "resolved_spec", "spec_digest"),
    *("labels", "queue", "priority", "max_seconds", "total_steps", "event_sequence"),
)
_TOLD = ("spec", "resolved_spec", "labels", "attempts_max", "run_at", "created_at")
"""What the database alone knows of a new job: its own defaults, and its order of what is in JSON.

The rest is as given or as is `_UNSAID`, and is not sent there and back."""
_UNSAID = {
    column.name: None if column.nullable else 0
    for column in _JOBS.columns
    if column.name not in {*_GIVEN, *_TOLD}
}


@cache
def _writing(*, is_noted: bool) -> Select[*tuple[Any, ...]]:  # of a job, and of its owner
    """The job, its first event, how many are ahead of it, its base model, its owner's quotas.

    That is one way to the database.

    Of tables and not of classes: the ORM's way to the same statement takes twice the time.
    """
    given = {name: bindparam(f"new_{name}", type_=_JOBS.c[name].type) for name in _GIVEN}
    job = insert(_JOBS).values(given).returning(*_JOBS.columns).cte("written")
    event = bindparam("event", type_=JSONB)
    columns = ["job_id", "sequence", "type", "data"]
    first = select(job.c.id, job.c.event_sequence, job.c.state, event)
    appended = insert(_EVENTS).from_select(columns, first).cte("appended")
    ahead = jobs_ahead(job.c.queue, job.c.priority, job.c.created_at)
    told = (job.c[name] for name in _TOLD)
    base = bindparam("ready_base", type_=Uuid[UUID]())
    is_made = base_models.is_made_by(base, job.c.project_id, job.c.base_model)
    found = select(
        *told,
        ahead.scalar_subquery().label("ahead"),
        or_(base.is_(None), is_made).label("has_base"),
    ).select_from(job)
    written = quotas.beside(found, job.c.owner_id).add_cte(appended)
    return written.add_cte(audit.beside()) if is_noted else written


def _place(session: Session, principal: Principal) -> dict[str, int]:
    return {"owner_id": principal.user_id, "project_id": access.to_create(session)}


def _event(principal: Principal, job_id: UUID, job: NewJob) -> dict[str, object]:
    return {"job_id": job_id, "sequence": 1, "type": job.state, "data": {"by": principal.name}}


def _row(job_id: UUID, job: NewJob) -> dict[str, Any]:  # columns of any type
    spec, resolved = job.spec, job.resolved
    return {
        "id": job_id,
        "state": job.state,
        "kind": spec.kind,
        "base_model": resolved.base_model,
        "family": str(resolved.family["name"]),
        "task": None if resolved.task is None else str(resolved.task["name"]),
        "method": None if resolved.method is None else str(resolved.method["name"]),
        "budget_requested": resolved.budget.requested,
        "trainable_parameters": resolved.budget.trainable_parameters,
        # With its kind, which an inline base model need not give, so that it can be posted again.
        "spec": {"kind": spec.kind} | spec.model_dump(mode="json", exclude_unset=True),
        "resolved_spec": resolved.model_dump(mode="json"),
        "spec_digest": job.digest,
        "labels": dict(spec.labels),
        "queue": spec.resources.queue,
        "priority": spec.resources.priority,
        "max_seconds": spec.resources.max_seconds,
        "total_steps": resolved.training.steps,
        "event_sequence": 1,
    }
