"""How a job is written when it is created: its row and its first event, many at once."""

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
    place = {"owner_id": principal.user_id, "project_id": access.to_create(session)}
    rows = [place | _row(job_id, job) for job_id, job in zip(ids, new, strict=True)]
    session.execute(insert(Job), rows)
    data = {"by": principal.name}
    events = [
        {"job_id": job_id, "sequence": 1, "type": job.state, "data": data}
        for job_id, job in zip(ids, new, strict=True)
    ]
    session.execute(insert(JobEvent), events)
    return ids


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
