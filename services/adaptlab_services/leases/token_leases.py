"""What a worker's token opens: the workers and leases that came by it, and nothing else.

What is done under a lease is for `DatabaseLedger`, with the fence that all workers have.
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
from adaptlab_db.tables import Attempt, Job, Worker
from adaptlab_db.visibility import VISIBLE
from adaptlab_services.errors import Conflict, LeaseLost, NotFound
from adaptlab_services.leases import claiming
from adaptlab_services.leases.lease_views import NewLease
from adaptlab_services.lifecycle.claims import Lease, held
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage.stored_files import StoredFile

MEDIA_TYPE = "application/octet-stream"


def sessions_of_workers(sessions: sessionmaker[Session]) -> sessionmaker[Session]:
    """Sessions that see all projects, as those of workers beside the database do.

    What a token may touch is looked up here by the worker that came with it; a project of the
    token bounds what is claimed (see `next_job`), and so all that follows.
    """
    kept = dict(sessions.kw)
    info = {**kept.pop("info", {}), VISIBLE: None}
    return sessionmaker(**kept, class_=sessions.class_, info=info)


def check_worker(session: Session, token: Principal, worker_id: UUID) -> None:
    """Raise `NotFound` for a worker that did not come with this token."""
    mine = select(Worker.id).where(Worker.id == worker_id, Worker.token_id == token.token_id)
    if session.scalars(mine).one_or_none() is None:
        raise NotFound("worker", worker_id)


def check_claim(session: Session, token: Principal, asked: NewLease) -> None:
    """Raise `NotFound` for another's worker, `Conflict` for a name that another worker has used."""
    check_worker(session, token, asked.worker)
    of_others = select(Attempt.job_id).where(
        Attempt.claim_id == asked.id, Attempt.worker_id != asked.worker
    )
    if session.scalars(of_others.limit(1)).one_or_none() is not None:
        raise Conflict(f"The id {asked.id} belongs to another worker's lease. Create a new id.")


def lease_of(
    session: Session, token: Principal, lease_id: UUID, attempt: int, lease_seconds: float
) -> Lease:
    """A lease that was claimed with this token, held or lost; raises `NotFound` for any other."""
    job_id = session.scalars(
        select(Attempt.job_id)
        .join(Worker, Worker.id == Attempt.worker_id)
        .where(
            Attempt.claim_id == lease_id,
            Attempt.attempt == attempt,
            Worker.token_id == token.token_id,
        )
        .order_by(Attempt.started_at.desc())
        .limit(1)
    ).one_or_none()
    if job_id is None:
        raise NotFound("lease", lease_id)
    return Lease(job_id, attempt, lease_id, lease_seconds)


def check_held(session: Session, lease: Lease) -> None:
    """Raise `LeaseLost` where another attempt may hold the job."""
    if session.scalars(select(Job.id).where(*held(lease))).one_or_none() is None:
        raise LeaseLost(lease.job_id, lease.attempt)


def file_of(session: Session, lease: Lease, sha256: str) -> StoredFile:
    """Content that the run under a lease needs; raises `LeaseLost`, and `NotFound` for any else."""
    check_held(session, lease)
    if sha256 not in claiming.to_fetch(session, lease.job_id):
        raise NotFound("artifact", sha256)
    size = ArtifactStore(session).size(sha256)
    return StoredFile(sha256=sha256, size=size, filename=sha256, media_type=MEDIA_TYPE)


@contextmanager
def refusing_what_cannot_be_stored() -> Generator[None]:
    """Turn what the database says of a value into `InvalidSpec`: it is the worker's fault."""
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
