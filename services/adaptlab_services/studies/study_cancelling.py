"""Cancellation of a study's jobs.

Jobs that another study or user wants are not cancelled.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from sqlalchemy import case, exists, select
from sqlalchemy.orm import Session, aliased

from adaptlab_db.job_states import ACTIVE_STATES, UNCLAIMED_STATES
from adaptlab_db.tables import BaseModel, Job, Study, StudyJob
from adaptlab_services.jobs import jobs
from adaptlab_services.lifecycle import awaiting
from adaptlab_services.lifecycle.transitions import MAKE_BASE_MODELS, Change, move, queues_to_ring
from adaptlab_services.people.tokens import Principal

CANCELLED = Change("cancelled", "cancelled_by_user")
IN_TURN = (("theory",), ("adapt",), MAKE_BASE_MODELS)
"""Kinds of jobs in the order of cancelling: a job is cancelled after those that wait for it."""


def stop_jobs(session: Session, principal: Principal, study_id: UUID) -> tuple[str, ...]:
    """Stop the study's jobs that only cancelled studies still have.

    Only jobs that were created for studies are stopped. Returns the queues that have new work.
    """
    _lock(session, study_id)
    queues: tuple[str, ...] = ()
    for kinds in IN_TURN:
        queues += _stop(session, principal, _only_for(session, study_id, kinds))
    return queues


def _lock(session: Session, study_id: UUID) -> None:
    """Lock the active jobs in the order in which workers do.

    Awaited jobs come before waiting ones.
    """
    mine = select(StudyJob.job_id).where(StudyJob.study_id == study_id)
    rank = case({"adapt": 1, "theory": 2}, value=Job.kind, else_=0)
    query = select(Job.id).where(Job.id.in_(mine), Job.state.in_(ACTIVE_STATES))
    session.execute(query.order_by(rank, Job.id).with_for_update())


def _only_for(session: Session, study_id: UUID, kinds: Sequence[str]) -> tuple[UUID, ...]:
    """Return the active jobs that only cancelled studies have.

    No other job waits for them.
    """
    mine, other = aliased(StudyJob), aliased(StudyJob)
    made_for_a_study = exists().where(other.job_id == Job.id, other.reused.is_(False))
    wanted = exists().where(
        other.job_id == Job.id, other.study_id == Study.id, Study.cancelled_at.is_(None)
    )
    waiting = aliased(Job)
    awaited = exists().where(
        BaseModel.job_id == Job.id,
        waiting.base_model == BaseModel.name,
        waiting.project_id == BaseModel.project_id,
        waiting.state.in_(ACTIVE_STATES),
    )
    query = (
        select(Job.id)
        .where(
            exists().where(mine.job_id == Job.id, mine.study_id == study_id),
            Job.state.in_(ACTIVE_STATES),
            Job.kind.in_(kinds),
            made_for_a_study,
            ~wanted,
            ~awaited,
            Job.id.not_in(awaiting.measured_by(ACTIVE_STATES)),
        )
        .order_by(Job.id)
        .with_for_update(of=Job)
    )
    return tuple(session.scalars(query))


def _stop(session: Session, principal: Principal, job_ids: Sequence[UUID]) -> tuple[str, ...]:
    """Cancel jobs at once, or ask the workers that run them to stop."""
    change = replace(CANCELLED, data={"by": principal.name})
    moved = move(session, [Job.id.in_(job_ids), Job.state.in_(UNCLAIMED_STATES)], change)
    ended = {job.job_id for job in moved}
    for job_id in job_ids:
        if job_id not in ended:
            jobs.stop(session, principal, job_id)
    return queues_to_ring(moved)
