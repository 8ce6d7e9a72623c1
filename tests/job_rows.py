"""A job's rows, made, read and changed in transactions of their own."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job

from adaptlab_db.tables import AttemptRow, Job, JobEvent

Sessions = sessionmaker[Session]
AGO = func.clock_timestamp() - timedelta(hours=1)


def new_job(sessions: Sessions, **values: Any) -> UUID:
    """The id of a new job, made as `a_job` makes it."""
    with sessions.begin() as session:
        return a_job(session, **values)


def job(sessions: Sessions, job_id: UUID) -> Job:
    """The job as it is now."""
    with sessions() as session:
        return session.scalars(select(Job).where(Job.id == job_id)).one()


def change(sessions: Sessions, job_id: UUID, **values: object) -> None:
    """Gives columns of the job other values, past every rule."""
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == job_id).values(values))


def attempts(sessions: Sessions, job_id: UUID) -> Sequence[AttemptRow]:
    """The job's attempts, the first of them first."""
    with sessions() as session:
        query = select(AttemptRow).where(AttemptRow.job_id == job_id).order_by(AttemptRow.attempt)
        return session.scalars(query).all()


def outcomes(sessions: Sessions, job_id: UUID) -> list[str | None]:
    """How each of the job's attempts ended, None for one that is running."""
    return [attempt.outcome for attempt in attempts(sessions, job_id)]


def event_types(sessions: Sessions, job_id: UUID) -> list[str]:
    """What happened to the job, in order."""
    with sessions() as session:
        query = select(JobEvent.type).where(JobEvent.job_id == job_id).order_by(JobEvent.sequence)
        return list(session.scalars(query))
