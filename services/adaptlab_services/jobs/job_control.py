"""What people do to a job besides cancelling it: pause it, let it go on, make it anew.

Each begins with a lock on the job's row, which decides the races with workers and with each other.
"""

import uuid
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import exists, func, insert, select, update
from sqlalchemy.orm import Session

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_answers.jobs import JobView
from adaptlab_db.job_states import LOST_STATES, TERMINAL_STATES
from adaptlab_db.tables import Job, JobEvent, Study, StudyJob
from adaptlab_services.errors import Conflict, NotFound
from adaptlab_services.jobs import jobs, study_lock
from adaptlab_services.lifecycle import adaptations
from adaptlab_services.lifecycle.transitions import MAKE_BASE_MODELS, Change, append_event, move
from adaptlab_services.limits import limits, quotas
from adaptlab_services.models import base_models
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal

ASKED_FOR = (
    "owner_id", "project_id", "kind", "base_model", "family", "task", "method", "budget_requested",
    "trainable_parameters", "spec", "resolved_spec", "spec_digest", "labels", "queue", "priority",
    "max_seconds", "total_steps",
)  # fmt: skip
"""Columns that say what a job is, and not what became of it."""


@dataclass(frozen=True, slots=True)
class Controlled:
    """The answer; `decided` is false while a worker has yet to stop, `queues` have new work."""

    job: JobView
    decided: bool = True
    replayed: bool = False
    queues: tuple[str, ...] = ()


def pause(session: Session, principal: Principal, job_id: UUID) -> Controlled:
    """Take a job out of its queue, or ask the worker that runs it to save its state and stop.

    Repeating the call changes nothing. Raises `Conflict` for a job that waits for another, is being
    cancelled or has ended.
    """
    job = _locked(session, job_id)
    if job.state == "waiting" or job.state in TERMINAL_STATES or job.cancel_requested_at:
        raise Conflict(f"{_told(job)}. Only a queued or running job can be paused.", job.state)
    if job.state == "queued":
        change = Change("paused", "paused_by_user", data={"by": principal.name})
        move(session, [Job.id == job_id, Job.state == "queued"], change)
    elif job.state == "running" and job.pause_requested_at is None:
        _note_request(session, job_id, func.clock_timestamp())
        append_event(session, job_id, "pause_requested", {"by": principal.name})
    return Controlled(jobs.get(session, job_id), decided=job.state != "running")


def resume(
    session: Session, principal: Principal, job_id: UUID, *, most_queued: int | None = None
) -> Controlled:
    """Queue a paused job again; it goes on where its state was saved.

    A request to pause that no worker has followed yet is taken back. A job that was not paused
    stays as it is. Raises `Conflict` for one that has ended, and `LimitReached`.
    """
    job = _locked(session, job_id)
    if job.state in TERMINAL_STATES:
        raise Conflict(f"{_told(job)}. Retry it to run it again.", job.state)
    queues: tuple[str, ...] = ()
    if job.state == "paused":
        now = {Job.run_at: func.clock_timestamp(), Job.pause_requested_at: None}
        change = Change("queued", data={"by": principal.name}, also=now)
        move(session, [Job.id == job_id, Job.state == "paused"], change)
        limits.check_queued(session, job.owner_id, most_queued)  # whoever asks
        quotas.check_jobs(session, job.owner_id, (job.queue,))
        queues = (job.queue,)
    elif job.pause_requested_at is not None:
        _note_request(session, job_id, None)
        append_event(session, job_id, "resumed", {"by": principal.name})
    return Controlled(jobs.get(session, job_id), queues=queues)


def retry(
    session: Session, principal: Principal, job_id: UUID, *, most_queued: int | None = None
) -> Controlled:
    """Make a job that failed or was cancelled anew: another job of the same resolved spec.

    It takes the old one's place in the studies that go on. There is one retry of a job: repeating
    the call returns it, and it can be retried in its turn. Raises `Conflict` for a job that has not
    ended or has succeeded, `InvalidSpec` where what it builds on has failed, and `LimitReached`.
    """
    study_lock.take(session)
    job = _locked(session, job_id)
    if job.state not in LOST_STATES:
        raise Conflict(
            f"{_told(job)}. Only a job that failed or was cancelled can be retried.", job.state
        )
    known = session.scalars(select(Job.id).where(Job.retry_of == job_id)).one_or_none()
    if known is not None:
        return Controlled(jobs.get(session, known), replayed=True)
    with access.inside(session, job.project_id):
        state = _first_state(session, job)
        anew = _copied(session, principal, job, state)
        _take_place(session, job_id, anew)
        if job.kind in MAKE_BASE_MODELS:
            base_models.register(session, str(job.spec["name"]), anew)
    limits.check_queued(session, principal.user_id, most_queued)
    quotas.check_jobs(session, principal.user_id, (job.queue,))
    queues = (job.queue,) if state == "queued" else ()
    return Controlled(jobs.get(session, anew), queues=queues)


def _locked(session: Session, job_id: UUID) -> Job:
    query = select(Job).where(Job.id == job_id).with_for_update()
    job = session.scalars(query.execution_options(populate_existing=True)).one_or_none()
    if job is None:
        raise NotFound("job", job_id)
    session.expunge(job)  # a picture of the row as it was, whatever becomes of it here
    access.check_change(session, job.owner_id, job.project_id)
    return job


def _told(job: Job) -> str:
    if job.state not in TERMINAL_STATES and job.cancel_requested_at is not None:
        return f"Job {job.id} is being cancelled"
    waits = " for another" if job.state == "waiting" else ""
    return f"Job {job.id} is {job.state}{waits}"


def _note_request(session: Session, job_id: UUID, moment: Any) -> None:  # an SQL expression, or no
    session.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(pause_requested_at=moment)
        .execution_options(synchronize_session=False)
    )


def _first_state(session: Session, job: Job) -> str:
    """Whether the job can run at once; what it builds on is locked and looked at, as when new."""
    ready = True
    if job.base_model is not None and job.kind not in MAKE_BASE_MODELS:
        base_models.facts(session, job.base_model)
        ready = base_models.is_ready(session, job.base_model)
    measured = [one.job for one in ResolvedSpec.model_validate(job.resolved_spec).adaptations]
    if measured:
        adaptations.facts(session, measured)
        ready = ready and adaptations.are_ready(session, measured)
    return "queued" if ready else "waiting"


def _copied(session: Session, principal: Principal, job: Job, state: str) -> UUID:
    anew = uuid.uuid4()
    row = {name: getattr(job, name) for name in ASKED_FOR}
    row |= {"id": anew, "state": state, "retry_of": job.id, "event_sequence": 1}
    # The owner is whoever asks: it counts against that one's limits.
    session.execute(insert(Job), [row | {"owner_id": principal.user_id}])
    data = {"by": principal.name, "retry_of": str(job.id)}
    session.execute(
        insert(JobEvent), [{"job_id": anew, "sequence": 1, "type": state, "data": data}]
    )
    return anew


def _take_place(session: Session, job_id: UUID, anew: UUID) -> None:
    goes_on = exists().where(Study.id == StudyJob.study_id, Study.cancelled_at.is_(None))
    session.execute(
        update(StudyJob)
        .where(StudyJob.job_id == job_id, goes_on)
        .values(job_id=anew)
        .execution_options(synchronize_session=False)
    )
