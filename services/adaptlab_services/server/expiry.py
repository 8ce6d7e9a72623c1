"""Expiry by policy: archived jobs, learning curves and dead workers.

Nothing expires by default. Nothing goes that a deletion would refuse.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, tuple_
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_db.tables import (
    AttemptRow,
    Job,
    MetricPointRow,
    StudyJob,
    WebhookDelivery,
    WebhookEvent,
    Worker,
)
from adaptlab_services.jobs import study_lock
from adaptlab_services.jobs.job_deletion import delete_unneeded
from adaptlab_services.settings import Settings
from adaptlab_services.storage.collecting import KEEP
from adaptlab_services.studies.study_cancelling import IN_TURN

IDLE_DAYS = 1.0
"""Days for which a worker of a token is kept that has never claimed a job."""
AT_ONCE = 100
"""Number of jobs per unit of work."""


@dataclass(frozen=True, slots=True)
class ExpiryPolicy:
    """Days after which things are removed; None keeps them forever."""

    archived_days: float | None = None
    curve_days: float | None = None
    worker_days: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> "ExpiryPolicy":
        """Return the policy of a server's settings."""
        return cls(settings.archived_days, settings.curve_days, settings.worker_days)


def in_words(settings: Settings) -> tuple[str, ...]:
    """Return what expires on a server with these settings, in words."""
    kept = {
        "archived jobs that have ended": settings.archived_days,
        "the points of learning curves": settings.curve_days,
        "attention maps": settings.attention_days,
        "checkpoints": settings.checkpoint_days,
        "workers without a heartbeat": settings.worker_days,
    }
    return tuple(
        f"{what} after {days:g} {'day' if days == 1 else 'days'}"
        for what, days in kept.items()
        if days is not None
    )


@dataclass(frozen=True, slots=True)
class Expired:
    """Numbers of archived jobs, jobs whose curves, and workers that went."""

    jobs: int = 0
    curves: int = 0
    workers: int = 0


def expire(sessions: sessionmaker[Session], policy: ExpiryPolicy) -> Expired:
    """Remove what the policy no longer keeps; safe to run concurrently."""
    return Expired(
        jobs=0 if policy.archived_days is None else _expire_jobs(sessions, policy.archived_days),
        curves=0 if policy.curve_days is None else _expire_curves(sessions, policy.curve_days),
        workers=_expire_workers(sessions, policy.worker_days),
    )


def _expire_jobs(sessions: sessionmaker[Session], days: float) -> int:
    """Delete archived jobs, those that need others first."""
    may_go = and_(_has_ended(days), Job.archived_at < _ago(days))
    count = 0
    for kinds in IN_TURN:
        after: tuple[datetime, UUID] | None = None
        while True:
            with sessions.begin() as session:
                study_lock.take(session)
                page = _page(session, and_(may_go, Job.kind.in_(kinds)), after)
                count += len(delete_unneeded(session, [row.id for row in page], may_go))
            if not page:
                break
            # Jobs that something needs stay, so that the next page begins behind them.
            after = (page[-1].archived_at, page[-1].id)
    return count


def _page(
    session: Session, may_go: ColumnElement[bool], after: tuple[datetime, UUID] | None
) -> Sequence[Any]:
    key = tuple_(Job.archived_at, Job.id)
    query = select(Job.id, Job.archived_at).where(may_go).order_by(Job.archived_at, Job.id)
    if after is not None:
        query = query.where(key > after)
    return session.execute(query.limit(AT_ONCE)).all()


def _expire_curves(sessions: sessionmaker[Session], days: float) -> int:
    has_points = exists().where(MetricPointRow.job_id == Job.id)
    old = select(Job.id).where(_has_ended(days), has_points).order_by(Job.finished_at, Job.id)
    count = 0
    while True:
        with sessions.begin() as session:
            jobs = session.scalars(old.limit(AT_ONCE)).all()
            session.execute(delete(MetricPointRow).where(MetricPointRow.job_id.in_(jobs)))
        if not jobs:
            return count
        count += len(jobs)


def _expire_workers(sessions: sessionmaker[Session], days: float | None) -> int:
    """Delete workers that hold no job, and about which no message is left.

    Those of a token that have never claimed a job go after `IDLE_DAYS` without a heartbeat.
    """
    old = and_(
        Worker.token_id.is_not(None),
        Worker.heartbeat_at < _ago(IDLE_DAYS),
        ~exists().where(AttemptRow.worker_id == Worker.id),
    )
    gone = and_(
        old if days is None else or_(old, Worker.heartbeat_at < _ago(days)),
        ~exists().where(Job.worker_id == Worker.id, Job.state == "running"),
        ~exists().where(WebhookEvent.worker_id == Worker.id),
        ~exists().where(WebhookDelivery.worker_id == Worker.id),
    )
    with sessions.begin() as session:
        return len(session.scalars(delete(Worker).where(gone).returning(Worker.id)).all())


def _has_ended(days: float) -> ColumnElement[bool]:
    """Return the condition that a job ended long ago, and may be removed."""
    return and_(
        Job.state.in_(TERMINAL_STATES),
        Job.finished_at < _ago(days),
        ~Job.labels.has_key(KEEP),
        Job.id.not_in(select(StudyJob.job_id)),
    )


def _ago(days: float) -> ColumnElement[datetime]:
    return func.clock_timestamp() - timedelta(days=days)
