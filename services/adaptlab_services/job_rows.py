"""How a job is written when it is created: its row and its first event, one or many at once."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import insert
from sqlalchemy.orm import Session

from adaptlab.spec import AnySpec, ResolvedSpec
from adaptlab_db.tables import Job, JobEvent
from adaptlab_services import access
from adaptlab_services.tokens import Principal


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is to be created; it waits while its base model is not there."""

    spec: AnySpec
    resolved: ResolvedSpec
    digest: str
    state: Literal["waiting", "queued"]


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


def insert_job(session: Session, principal: Principal, new: NewJob) -> Job:
    """Write one job as `insert_jobs` does; returns its row as the database keeps it.

    The row is not the session's: what becomes of the job later is not seen in it.
    """
    job_id = uuid.uuid4()
    row = _place(session, principal) | _row(job_id, new)
    # Tables and not classes: the ORM's way to the same statement takes twice the time.
    stored = session.execute(_INSERT_JOB, row).mappings().one()
    session.execute(_INSERT_EVENT, _event(principal, job_id, new))
    return Job(**stored)


_JOBS = Job.metadata.tables[Job.__tablename__]
_INSERT_JOB = insert(_JOBS).returning(*_JOBS.columns)
_INSERT_EVENT = insert(JobEvent.metadata.tables[JobEvent.__tablename__])


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
