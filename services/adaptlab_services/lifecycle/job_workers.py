"""The worker of one job, which registers with the job's own token.

Everybody who may submit can create such tokens, so they give one live worker a job and no more: one
that registers again takes the row of its predecessor, unless that has claimed the job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, exists, func, select, update
from sqlalchemy.orm import Session

from adaptlab_db.tables import AttemptRow, Token, Worker
from adaptlab_services.lifecycle import workers


@dataclass(frozen=True, slots=True)
class JobWorker:
    """A process that registers with the token of a job.

    Attributes:
        host: the name of its machine.
        process_id: its number there.
        token_id: its token.
        model_roots: the aliases of those that it can read, None if they are unknown.
    """

    host: str
    process_id: int
    token_id: int | None
    model_roots: Sequence[str] | None


def register(session: Session, job_id: UUID, new: JobWorker) -> UUID:
    """Register the only live worker of a job; return its id.

    A predecessor counts as stopped. It can still report under a lease that it holds.
    """
    lock = select(Token.id).where(Token.job_id == job_id).order_by(Token.id)
    session.execute(lock.with_for_update())
    session.execute(
        update(Worker)
        .where(Worker.token_id.in_(select(Token.id).where(Token.job_id == job_id)))
        .where(Worker.stopped_at.is_(None))
        .values(stopped_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    again = _registered_again(session, job_id, new)
    if again is not None:
        return again
    return workers.register(session, new.host, new.process_id, (), new.token_id, new.model_roots)


def _registered_again(session: Session, job_id: UUID, new: JobWorker) -> UUID | None:
    """Give the row of a worker of the same token to its successor."""
    idle = select(Worker.id).where(Worker.token_id == new.token_id, ~_has_claimed(job_id))
    now, roots = func.clock_timestamp(), new.model_roots
    about = {
        "host": new.host,
        "process_id": new.process_id,
        "model_roots": None if roots is None else list(roots),
    }
    nothing = dict.fromkeys(("stopped_at", "lost_at", "load", "unschedulable"))
    return session.scalars(
        update(Worker)
        .where(Worker.id == idle.limit(1).scalar_subquery())
        .values(about | nothing | {"started_at": now, "heartbeat_at": now})
        .returning(Worker.id)
        .execution_options(synchronize_session=False)
    ).one_or_none()


def _has_claimed(job_id: UUID) -> ColumnElement[bool]:
    return exists().where(AttemptRow.job_id == job_id, AttemptRow.worker_id == Worker.id)
