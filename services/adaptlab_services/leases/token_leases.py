"""Access with a worker's token.

It is limited to the workers and leases that were created with the token. `DatabaseLedger` does the
work under a lease, with the same fence for all workers.
"""

from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID

from psycopg.errors import ForeignKeyViolation
from sqlalchemy import select
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import AttemptRow, Job, Worker
from adaptlab_db.visibility import VISIBLE
from adaptlab_services.errors import Absent, LeaseLost, StateConflict
from adaptlab_services.leases import run_inputs
from adaptlab_services.leases.lease_views import NewLease
from adaptlab_services.lifecycle.held_leases import Lease, held
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage.stored_files import StoredFile

MEDIA_TYPE = "application/octet-stream"


def sessions_of_workers(sessions: sessionmaker[Session]) -> sessionmaker[Session]:
    """Return sessions that see all projects.

    Sessions of workers with a database connection see all projects, too. A token gives access to
    the workers that registered with it. A project of the token limits which jobs are claimed (see
    `next_job`), and so everything that follows.
    """
    kept = dict(sessions.kw)
    info = {**kept.pop("info", {}), VISIBLE: None}
    return sessionmaker(**kept, class_=sessions.class_, info=info)


def check_worker(session: Session, token: Principal, worker_id: UUID) -> None:
    """Raise `Absent` for a worker that did not register with this token."""
    mine = select(Worker.id).where(Worker.id == worker_id, Worker.token_id == token.token_id)
    if session.scalars(mine).one_or_none() is None:
        raise Absent("worker", worker_id)


def check_claim(session: Session, token: Principal, asked: NewLease) -> None:
    """Check the worker and the id of a requested claim.

    Raises `Absent` for a worker of another token, and `StateConflict` for an id of
    another worker.
    """
    check_worker(session, token, asked.worker)
    of_others = select(AttemptRow.job_id).where(
        AttemptRow.claim_id == asked.id, AttemptRow.worker_id != asked.worker
    )
    if session.scalars(of_others.limit(1)).one_or_none() is not None:
        raise StateConflict(
            f"The id {asked.id} belongs to another worker's lease. Create a new id."
        )


def lease_of(
    session: Session, token: Principal, lease_id: UUID, attempt: int, lease_seconds: float
) -> Lease:
    """Return a lease that was claimed with this token, held or lost.

    Raises `Absent`.
    """
    job_id = session.scalars(
        select(AttemptRow.job_id)
        .join(Worker, Worker.id == AttemptRow.worker_id)
        .where(
            AttemptRow.claim_id == lease_id,
            AttemptRow.attempt == attempt,
            Worker.token_id == token.token_id,
        )
        .order_by(AttemptRow.started_at.desc())
        .limit(1)
    ).one_or_none()
    if job_id is None:
        raise Absent("lease", lease_id)
    return Lease(job_id, attempt, lease_id, lease_seconds)


def check_held(session: Session, lease: Lease) -> None:
    """Raise `LeaseLost` if the lease no longer holds."""
    if session.scalars(select(Job.id).where(*held(lease))).one_or_none() is None:
        raise LeaseLost(lease.job_id, lease.attempt)


def file_of(session: Session, lease: Lease, sha256: str) -> StoredFile:
    """Return a file that the run under a lease needs.

    Raises `LeaseLost` and `Absent`.
    """
    check_held(session, lease)
    if sha256 not in run_inputs.to_fetch(session, lease.job_id):
        raise Absent("artifact", sha256)
    size = ArtifactStore(session).size(sha256)
    return StoredFile(sha256=sha256, size=size, filename=sha256, media_type=MEDIA_TYPE)


@contextmanager
def refusing_what_cannot_be_stored() -> Generator[None]:
    """Turn the database's errors about values into `InvalidSpec`.

    The worker sent these values.
    """
    try:
        yield
    except (DataError, IntegrityError) as error:
        is_key = isinstance(error.orig, ForeignKeyViolation)
        detail = (
            "A digest refers to content that is not stored. Send the content first."
            if is_key
            else "A value cannot be stored, for example because a number is too large."
        )
        raise InvalidSpec(Problem("/events", "unstorable", detail)) from error
