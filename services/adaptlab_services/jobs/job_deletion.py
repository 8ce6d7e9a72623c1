"""Deletion of jobs that have ended and that nothing needs.

Their results go with them. Content that only they referred to is collected later, as all content
without a reference is.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Uuid, bindparam, func, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session, aliased

from adaptlab.errors import Problem
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_db.tables import BaseModel, Job, Project, Study, StudyJob, StudyPass
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import Absent, Forbidden, StateConflict, StillNeeded
from adaptlab_services.jobs import study_lock
from adaptlab_services.lifecycle import awaiting
from adaptlab_services.lifecycle.transitions import MAKE_BASE_MODELS
from adaptlab_services.models import base_models
from adaptlab_services.people import access, audit

MOST_NEEDS = 100
"""Number of needs of each kind that a refusal lists."""


class NeededJob(NamedTuple):
    """A job, and what needs it."""

    job_id: UUID
    problem: Problem


class Selection(NamedTuple):
    """The jobs of a selection that were deleted, and why others were not."""

    deleted: tuple[UUID, ...]
    refused: Mapping[UUID, str]


def delete_job(session: Session, job_id: UUID) -> None:
    """Delete a job with its results.

    Raises:
        Absent: there is no such job.
        Forbidden: the caller is no admin of its project.
        StateConflict: it has not ended.
        StillNeeded: a study, or another job, needs it.
    """
    study_lock.take(session)
    job = _delete(session, job_id)
    audit.note(session, kind=job.kind, state=job.state)


def delete_selected(session: Session, job_ids: Collection[UUID]) -> Selection:
    """Delete those of some jobs that can be deleted.

    A job that only other selected ones need is deleted after them.
    """
    study_lock.take(session)
    lock(session, job_ids)  # all, before any row of others is waited for
    deleted: list[UUID] = []
    kept: Mapping[UUID, str] = dict.fromkeys(job_ids, "")
    while kept:
        refused: dict[UUID, str] = {}
        for job_id in kept:
            try:
                with session.begin_nested():
                    _delete(session, job_id)
            except (StateConflict, Forbidden, Absent) as refusal:
                refused[job_id] = str(refusal)
            else:
                deleted.append(job_id)
        if len(refused) == len(kept):
            return Selection(tuple(deleted), refused)
        kept = refused
    return Selection(tuple(deleted), {})


def _delete(session: Session, job_id: UUID) -> Any:  # the row of the job
    """Delete a job; the caller holds the lock of studies."""
    (job,) = lock(session, [job_id]) or (None,)
    if job is None:
        raise Absent("job", job_id)
    access.check_admin(session, job.project_id)
    if job.state not in TERMINAL_STATES:
        raise StateConflict(f"The job {job_id} is {job.state}. Cancel it first.", job.state)
    if needs := tuple(needs_of(session, [job_id])):
        raise StillNeeded(f"The job {job_id}", [need.problem for need in needs])
    remove(session, [job_id])
    return job


def delete_unneeded(
    session: Session, job_ids: Collection[UUID], *conditions: ColumnElement[bool]
) -> Sequence[UUID]:
    """Delete those jobs that have ended and that nothing but each other needs.

    They must still meet the conditions when they are locked. Returns their ids. The caller holds
    the lock of studies.
    """
    locked = lock(session, job_ids, *conditions)
    ended = {job.id for job in locked if job.state in TERMINAL_STATES}
    while needed := {need.job_id for need in needs_of(session, ended)}:
        ended -= needed
    remove(session, tuple(ended))
    return tuple(ended)


def lock(
    session: Session, job_ids: Collection[UUID], *conditions: ColumnElement[bool]
) -> Sequence[Any]:
    """Lock jobs that meet the conditions; return their rows.

    Until then nothing new can need them: studies wait for the lock of studies, theory checks for
    the rows, and adaptations of a base model for the table of base models.
    """
    columns = (Job.id, Job.project_id, Job.kind, Job.state)
    query = select(*columns).where(Job.id.in_(job_ids))
    if any(job.kind in MAKE_BASE_MODELS for job in session.execute(query)):
        # Before the rows, in the order in which other units of work use them.
        base_models.lock_table(session)
    return session.execute(query.where(*conditions).order_by(Job.id).with_for_update()).all()


def needs_of(session: Session, job_ids: Collection[UUID]) -> Iterator[NeededJob]:
    """Yield what needs these jobs, other than each other."""
    if not job_ids:
        return
    for job_id, study_id, name in session.execute(_in_studies(job_ids)):
        detail = f"The study {name!r} ({study_id}) has it."
        yield NeededJob(job_id, Problem("/path/job_id", "needed_by_study", detail))
    for job_id, name, other in session.execute(_on_base_models(job_ids)):
        detail = f"The job {other} uses the base model {name!r} that it created."
        yield NeededJob(job_id, Problem("/path/job_id", "needed_by_job", detail))
    for job_id, name, project in session.execute(
        _shared(job_ids), execution_options=ACROSS_PROJECTS
    ):
        detail = f"The base model {name!r} that it created is shared with the project {project!r}."
        problem = Problem("/path/job_id", "needed_by_share", f"{detail} Take it back first.")
        yield NeededJob(job_id, problem)
    for job_id, other in session.execute(_measuring(job_ids)):
        detail = f"The theory check {other} measures its adaptation."
        yield NeededJob(job_id, Problem("/path/job_id", "needed_by_check", detail))


def remove(session: Session, job_ids: Sequence[UUID]) -> None:
    """Delete jobs that are locked and not needed; tokens for them are revoked."""
    if job_ids:
        ids = bindparam("ids", [*job_ids], type_=ARRAY(Uuid))
        session.execute(select(func.delete_ended_jobs(ids)))
        session.expire_all()


def _in_studies(job_ids: Collection[UUID]) -> Select[UUID, UUID, str]:
    planned = (
        select(StudyPass.job_id, Study.id, Study.name)
        .join(Study, Study.id == StudyPass.study_id)
        .where(StudyPass.job_id.in_(job_ids))
    )
    linked = (
        select(StudyJob.job_id, Study.id, Study.name)
        .join(Study, Study.id == StudyJob.study_id)
        .where(StudyJob.job_id.in_(job_ids))
    )
    both = linked.union(planned).limit(MOST_NEEDS).subquery()
    return select(both.c[0], both.c[1], both.c[2])


def _on_base_models(job_ids: Collection[UUID]) -> Select[UUID, str, UUID]:
    user = aliased(Job)
    other_base = func.jsonb_build_object(
        "evaluation_bases", func.jsonb_build_array(func.jsonb_build_object("name", BaseModel.name))
    )
    uses = or_(user.base_model == BaseModel.name, user.resolved_spec.contains(other_base))
    return (
        select(BaseModel.job_id, BaseModel.name, user.id)
        .select_from(BaseModel)
        .join(user, (user.project_id == BaseModel.project_id) & uses)
        .where(BaseModel.job_id.in_(job_ids), user.id.not_in(job_ids))
        .order_by(user.created_at.desc(), user.id)
        .limit(MOST_NEEDS)
    )


def _shared(job_ids: Collection[UUID]) -> Select[UUID, str, str]:
    return (
        select(BaseModel.job_id, BaseModel.name, Project.name)
        .join(Project, Project.id == BaseModel.project_id)
        .where(BaseModel.job_id.in_(job_ids), BaseModel.shared_from.is_not(None))
        .order_by(Project.name)
        .limit(MOST_NEEDS)
    )


def _measuring(job_ids: Collection[UUID]) -> Select[UUID, UUID]:
    measured, check = awaiting.measured_adaptations()
    return measured.where(
        check.id.not_in(job_ids), measured.selected_columns[0].in_(job_ids)
    ).limit(MOST_NEEDS)
