"""Rows of new jobs and of their first events."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import insert
from sqlalchemy.orm import Session

from adaptlab.plugins.sizing import PARAMETERS
from adaptlab.specs.spec import AnySpec, ResolvedSpec
from adaptlab_db.tables import Job, JobEvent
from adaptlab_services.models.dataset_origins import with_origins
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal

FirstState = Literal["waiting", "queued"]


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is to be created.

    It waits unless all that it builds on `is_ready`.
    """

    spec: AnySpec
    resolved: ResolvedSpec
    digest: str
    is_ready: bool

    @property
    def state(self) -> FirstState:
        """The state in which the job is created."""
        return first_state(is_ready=self.is_ready)


def first_state(*, is_ready: bool) -> FirstState:
    """Return the state of a new job.

    It depends on whether all that the job builds on is there.
    """
    return "queued" if is_ready else "waiting"


def insert_jobs(session: Session, principal: Principal, new: Sequence[NewJob]) -> tuple[UUID, ...]:
    """Create jobs of the principal, and return their ids in order.

    They belong to the project of the unit of work. Raises `Forbidden` if the caller may not submit
    to that project.
    """
    if not new:
        return ()
    place = {"owner_id": principal.user_id, "project_id": access.to_create(session)}
    documents = with_origins(session, [job.resolved for job in new])
    rows = [_row(job, document) | place for job, document in zip(new, documents, strict=True)]
    return insert_rows(session, rows, {"by": principal.name})


def insert_job(session: Session, principal: Principal, new: NewJob) -> dict[str, Any]:
    """Create one job as `insert_jobs` does, and return its row.

    The row is as the database stores it.
    """
    project_id = access.to_create(session)
    place = {"owner_id": principal.user_id, "project_id": project_id}
    (document,) = with_origins(session, [new.resolved])
    row = _row(new, document) | place | {"id": uuid.uuid4(), "event_sequence": 1}
    stored = session.execute(_INSERT, row).mappings().one()
    session.execute(insert(_EVENTS), [_first_event(row, {"by": principal.name})])
    return dict(stored)


def insert_rows(
    session: Session, rows: Sequence[Mapping[str, Any]], data: Mapping[str, str]
) -> tuple[UUID, ...]:
    """Insert rows of new jobs, and return their ids in order.

    Each job gets a first event that has `data`. The rows lack an `id` and `event_sequence`, which
    are set here. Two statements for any number of jobs.
    """
    ids = tuple(uuid.uuid4() for _ in rows)
    jobs = [{**row, "id": id_, "event_sequence": 1} for id_, row in zip(ids, rows, strict=True)]
    session.execute(insert(_JOBS), jobs)
    session.execute(insert(_EVENTS), [_first_event(job, data) for job in jobs])
    return ids


# Of the tables, because the ORM takes twice the time for the same statements.
_JOBS = Job.metadata.tables[Job.__tablename__]
_EVENTS = JobEvent.metadata.tables[JobEvent.__tablename__]
_INSERT = insert(_JOBS).returning(*_JOBS.columns)


def _first_event(job: Mapping[str, Any], data: Mapping[str, str]) -> dict[str, Any]:
    return {"job_id": job["id"], "sequence": 1, "type": job["state"], "data": data}


def _row(job: NewJob, resolved: ResolvedSpec) -> dict[str, Any]:  # columns of any type
    """Return the columns that `Job` marks as `ASKED`, and the state."""
    spec = job.spec
    return {
        "state": job.state,
        "kind": spec.kind,
        "base_model": resolved.base_model,
        "family": str(resolved.family["name"]),
        "task": None if resolved.task is None else str(resolved.task["name"]),
        "method": None if resolved.method is None else str(resolved.method["name"]),
        "budget_requested": resolved.budget.requested
        if resolved.budget.axis == PARAMETERS
        else None,
        "trainable_parameters": resolved.budget.trainable_parameters,
        # An inline base model need not give its kind; with it, the stored spec can be posted again.
        "spec": {"kind": spec.kind} | spec.model_dump(mode="json", exclude_unset=True),
        "resolved_spec": resolved.model_dump(mode="json"),
        "spec_digest": job.digest,
        "labels": dict(spec.labels),
        "queue": spec.resources.queue,
        "priority": spec.resources.priority,
        "max_seconds": spec.resources.max_seconds,
        "total_steps": resolved.training.steps,
    }
