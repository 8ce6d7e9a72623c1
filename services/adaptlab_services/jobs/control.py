"""Pause, resume and retry a job.

Each locks the job's row first, which decides races with workers and with each other.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session

from adaptlab.specs.resolved import datasets_of, readable, spec_digest
from adaptlab.specs.spec import ModelFolder, ResolvedSpec
from adaptlab_answers.jobs import JobView
from adaptlab_db.job_states import LOST_STATES, TERMINAL_STATES
from adaptlab_db.tables import Job, Study, StudyJob, StudyPass, asked_columns
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.jobs import jobs, study_lock
from adaptlab_services.jobs.rows import first_state, insert_rows
from adaptlab_services.lifecycle import adaptations
from adaptlab_services.lifecycle.transitions import MAKE_BASE_MODELS, Change, append_event, move
from adaptlab_services.limits import limits, quotas
from adaptlab_services.models import (
    base_models,
    coming_folders,
    folder_changes,
    uploaded_folders,
)
from adaptlab_services.models.dataset_deletion import check_present
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal


@dataclass(frozen=True, slots=True)
class Controlled:
    """The job after a change.

    `decided` is false while a worker has yet to stop, and `queues` have new work.
    """

    job: JobView
    decided: bool = True
    replayed: bool = False
    queues: tuple[str, ...] = ()


def pause(session: Session, principal: Principal, job_id: UUID) -> Controlled:
    """Take a job out of its queue, or ask its worker to stop.

    The worker is asked to save the job's state first. Repeating the call changes nothing. Raises
    `Absent`, `Forbidden`, and `StateConflict` for a job that waits for another, is being
    cancelled or has ended.
    """
    job = _locked(session, job_id)
    if job.state == "waiting" or job.state in TERMINAL_STATES or job.cancel_requested_at:
        raise StateConflict(
            f"{_described(job)}. Only a queued or running job can be paused.", job.state
        )
    if job.state == "queued":
        change = Change("paused", "paused_by_user", data={"by": principal.name})
        move(session, [Job.id == job_id, Job.state == "queued"], change)
    elif job.state == "running" and job.pause_requested_at is None:
        _note_request(session, job_id, func.clock_timestamp())
        append_event(session, job_id, "pause_requested", {"by": principal.name})
    return Controlled(jobs.get(session, job_id), decided=job.state != "running")


def resume(
    session: Session,
    principal: Principal,
    job_id: UUID,
    *,
    most_queued: int | None = None,
    roots: ModelRoots = NO_ROOTS,
) -> Controlled:
    """Queue a paused job again; it resumes from its saved state.

    A request to pause that no worker has followed yet is withdrawn. A job that was not paused does
    not change. Raises `Absent`, `Forbidden`, `LimitReached`, `QuotaReached`,
    `StateConflict` for a job that has ended, and `InvalidSpec` if a folder below `roots` that it
    reads is gone or changed.
    """
    job = _locked(session, job_id)
    if job.state in TERMINAL_STATES:
        raise StateConflict(f"{_described(job)}. Retry it to run it again.", job.state)
    queues: tuple[str, ...] = ()
    if job.state == "paused":
        _check_folders(session, job, roots)
        now = {Job.run_at: func.clock_timestamp(), Job.pause_requested_at: None}
        change = Change("queued", data={"by": principal.name}, also=now)
        move(session, [Job.id == job_id, Job.state == "paused"], change)
        limits.check_queued(session, job.owner_id, most_queued)  # also for operators
        quotas.check_jobs(session, job.owner_id, (job.queue,))
        queues = (job.queue,)
    elif job.pause_requested_at is not None:
        _note_request(session, job_id, None)
        append_event(session, job_id, "resumed", {"by": principal.name})
    return Controlled(jobs.get(session, job_id), queues=queues)


def retry(
    session: Session,
    principal: Principal,
    job_id: UUID,
    *,
    most_queued: int | None = None,
    roots: ModelRoots = NO_ROOTS,
) -> Controlled:
    """Create a job with the resolved spec of one that failed or was cancelled.

    The new job replaces the old one in studies that were not cancelled. If its base model could not
    be fetched, the import is retried as well. A job has at most one
    retry, which repeated calls return; the retry can be retried too.

    Raises `Absent`, `Forbidden`, `LimitReached`, `QuotaReached`, `StateConflict` for a
    job that has not ended or has succeeded, and `InvalidSpec` if a job that it builds on has
    failed, a dataset of it was deleted, or a folder that it reads below `roots` is gone or has
    changed.
    """
    study_lock.take(session)
    job = _locked(session, job_id)
    if job.state not in LOST_STATES:
        raise StateConflict(
            f"{_described(job)}. Only a job that failed or was cancelled can be retried.", job.state
        )
    earlier = session.scalars(select(Job.id).where(Job.retry_of == job_id)).one_or_none()
    if earlier is not None:
        return Controlled(jobs.get(session, earlier), replayed=True)
    with access.inside(session, job.project_id):
        _fetch_base_again(session, principal, job, most_queued)
        coming = _coming_folder(job)
        is_ready = _is_ready(session, job) and coming is None
        _check_folders(session, job, roots)
        copy_id = _copy(session, principal, job, is_ready=is_ready)
        _take_place(session, job_id, copy_id)
        if job.kind in MAKE_BASE_MODELS:
            base_models.register(session, str(job.spec["name"]), copy_id)
        if coming is not None:
            coming_folders.begin(session, principal, copy_id, coming)
    limits.check_queued(session, principal.user_id, most_queued)
    quotas.check_jobs(session, principal.user_id, (job.queue,))
    queues = (job.queue,) if is_ready else ()
    return Controlled(jobs.get(session, copy_id), queues=queues)


def _locked(session: Session, job_id: UUID) -> Job:
    query = select(Job).where(Job.id == job_id).with_for_update()
    job = session.scalars(query.execution_options(populate_existing=True)).one_or_none()
    if job is None:
        raise Absent("job", job_id)
    session.expunge(job)  # keeps the row as it was, whatever changes afterwards
    access.check_change(session, job.owner_id, job.project_id)
    return job


def _described(job: Job) -> str:
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


def _is_ready(session: Session, job: Job) -> bool:
    """Return True if the base model and adaptations of a job are there.

    Locks the jobs that create them. Raises `InvalidSpec` if a dataset was deleted.
    """
    is_ready = True
    if job.base_model is not None and job.kind not in MAKE_BASE_MODELS:
        base_models.facts(session, job.base_model)
        is_ready = base_models.is_ready(session, job.base_model)
    resolved = ResolvedSpec.model_validate(job.resolved_spec)
    for index, other in enumerate(resolved.evaluation_bases):
        pointer = f"/evaluation/base_models/{index}"
        is_ready = base_models.usable_base(session, other.name, pointer).is_ready and is_ready
    check_present(session, datasets_of(readable(resolved)), "/task")
    with access.inside(session, job.project_id):
        if resolved.model_folder is not None and resolved.model_folder.stored:
            uploaded_folders.check_unchanged(session, resolved.model_folder, "/folder")
        if resolved.adapter is not None and resolved.adapter.stored:
            uploaded_folders.check_unchanged(session, resolved.adapter, "/adapter", "adapter")
    measured = [one.job for one in resolved.adaptations]
    if measured:
        adaptations.facts(session, measured)
        is_ready = is_ready and adaptations.are_ready(session, measured)
    return is_ready


def _fetch_base_again(
    session: Session, principal: Principal, job: Job, most_queued: int | None
) -> None:
    """Retry the import of a job's base model if its files were never fetched."""
    name = None if job.kind in MAKE_BASE_MODELS else job.base_model
    maker_id = None if name is None else base_models.job_of(session, name)
    maker = None if maker_id is None else session.get_one(Job, maker_id)
    if maker is not None and maker.state in LOST_STATES and _coming_folder(maker) is not None:
        retry(session, principal, maker.id, most_queued=most_queued)


def _coming_folder(job: Job) -> ModelFolder | None:
    """Return the folder of an import whose files were never fetched."""
    folder = ResolvedSpec.model_validate(job.resolved_spec).model_folder
    return folder if folder is not None and folder.is_coming else None


def _check_folders(session: Session, job: Job, roots: ModelRoots) -> None:
    """Raise `InvalidSpec` if a model folder of the job is gone or has changed."""
    resolved = ResolvedSpec.model_validate(job.resolved_spec)
    folder_changes.check_unchanged(session, resolved.model_folder, roots, "/folder")
    if job.base_model is not None and job.kind not in MAKE_BASE_MODELS:
        with access.inside(session, job.project_id):
            base = base_models.facts(session, job.base_model)
        folder_changes.check_base(session, base, roots, "/base_model")


def _copy(session: Session, principal: Principal, job: Job, *, is_ready: bool) -> UUID:
    """Create a job with the same spec in the same project.

    It counts as the principal's own.
    """
    row = {column.name: getattr(job, column.name) for column in asked_columns()}
    resolved = coming_folders.present(session, job.resolved_spec)
    if resolved != ResolvedSpec.model_validate(job.resolved_spec):
        row |= {
            "resolved_spec": resolved.model_dump(mode="json"),
            "spec_digest": spec_digest(resolved),
        }
    row |= {
        "owner_id": principal.user_id,
        "project_id": job.project_id,
        "state": first_state(is_ready=is_ready),
        "retry_of": job.id,
    }
    (copy_id,) = insert_rows(session, [row], {"by": principal.name, "retry_of": str(job.id)})
    return copy_id


def _take_place(session: Session, job_id: UUID, copy_id: UUID) -> None:
    is_active = exists().where(Study.id == StudyJob.study_id, Study.cancelled_at.is_(None))
    session.execute(
        update(StudyJob)
        .where(StudyJob.job_id == job_id, is_active)
        .values(job_id=copy_id)
        .execution_options(synchronize_session=False)
    )
    _reopen_questions(session, job_id, copy_id)


def _reopen_questions(session: Session, job_id: UUID, copy_id: UUID) -> None:
    """Have studies that answer a question wait for the copy of a pass's job."""
    of_pass = exists().where(StudyPass.study_id == Study.id, StudyPass.job_id == job_id)
    session.execute(
        update(Study)
        .where(of_pass, Study.cancelled_at.is_(None))
        .values(question_open=True)
        .execution_options(synchronize_session=False)
    )
    is_open = exists().where(Study.id == StudyPass.study_id, Study.question_open)
    session.execute(
        update(StudyPass)
        .where(StudyPass.job_id == job_id, StudyPass.state != "dropped", is_open)
        .values(job_id=copy_id, state="open")
        .execution_options(synchronize_session=False)
    )
