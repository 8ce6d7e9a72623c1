"""Restoring a backup into an empty database."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import stores_of
from adaptlab_db.migrate import refuse_too_old, upgrade
from adaptlab_db.session import close
from adaptlab_db.stores.store import POSTGRES
from adaptlab_db.tables import Artifact, Job, Upload, Worker
from adaptlab_services.leases.lease_ends import uncounted
from adaptlab_services.lifecycle.transitions import Change, move
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings
from adaptlab_stack.backup import CONTENTS, DUMP, FORMAT, Backup, artifact_file, run_program
from adaptlab_stack.errors import BackupFailed

READ_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restoration.

    Attributes:
        artifacts: number of artifacts with intact bytes.
        damaged: digests of the others, which are quarantined.
        requeued: number of jobs that ran during the backup and now wait for a worker.
    """

    artifacts: int
    damaged: tuple[str, ...]
    requeued: int


def restore(settings: Settings, folder: Path) -> Restored:
    """Fill an empty database, and the configured stores, from a backup.

    If it is interrupted, the database is not empty: drop it and start again.

    Raises:
        BackupFailed: the folder has no complete backup, the database is not empty, or Postgres
            refused the dump.
        TablesTooOld: an earlier version has to restore it.
    """
    backup = _read(folder)
    refuse_too_old(backup.revision)
    sessions = open_sessions(settings)
    try:
        _refuse_unless_empty(sessions)
        run_program(
            "pg_restore",
            settings.database_url,
            *("--no-password", "--no-owner", "--no-privileges"),
            *("--exit-on-error", "--single-transaction"),
            str(folder / DUMP),
        )
        upgrade(settings.database_url)
        with sessions.begin() as session:
            _forget_places(session)
        damaged = _restore_artifacts(sessions, folder, backup)
        with sessions.begin() as session:
            requeued = _requeue(session)
            whole = select(func.count()).where(Artifact.state == "ready")
            return Restored(session.scalars(whole).one(), damaged, requeued)
    finally:
        close(sessions)


def _read(folder: Path) -> Backup:
    try:
        backup = Backup.model_validate_json((folder / CONTENTS).read_bytes())
    except FileNotFoundError as error:
        raise BackupFailed(
            f"{folder} does not contain a complete backup: {CONTENTS} is missing."
        ) from error
    except ValidationError as error:
        raise BackupFailed(f"{folder / CONTENTS} cannot be read: {error}") from error
    if backup.format != FORMAT:
        raise BackupFailed(
            f"{folder} has the format {backup.format}, but this version reads {FORMAT}. Restore "
            f"it with adaptlab {backup.version}."
        )
    return backup


def _refuse_unless_empty(sessions: sessionmaker[Session]) -> None:
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
    with sessions() as session:
        count = session.scalars(text(tables)).one()
    if count:
        raise BackupFailed(
            f"The database has {count} tables, but a backup is restored into an empty "
            "database. Set ADAPTLAB_DATABASE_URL to a new database, or --data-dir to a new "
            "folder."
        )


def _forget_places(session: Session) -> None:
    """Reset the places of artifacts, and delete unfinished uploads.

    The stores are filled again, and a backup contains no chunks of open uploads.
    """
    unsynchronised = {"synchronize_session": False}
    old = update(Artifact).where(Artifact.store != POSTGRES).values(store=POSTGRES, key=None)
    session.execute(old, execution_options=unsynchronised)
    unfinished = select(Artifact.sha256).where(Artifact.state == "uploading")
    session.execute(
        delete(Upload).where(Upload.artifact_sha256.in_(unfinished)),
        execution_options=unsynchronised,
    )
    session.execute(
        delete(Artifact).where(Artifact.state == "uploading"), execution_options=unsynchronised
    )


def _restore_artifacts(
    sessions: sessionmaker[Session], folder: Path, backup: Backup
) -> tuple[str, ...]:
    with sessions() as session:
        ready = select(Artifact.sha256, Artifact.size).where(Artifact.state == "ready")
        rows = session.execute(ready.order_by(Artifact.sha256)).all()
    return tuple(
        row.sha256
        for row in rows
        if not _restore_one(sessions, folder, backup, row.sha256, row.size)
    )


def _restore_one(
    sessions: sessionmaker[Session], folder: Path, backup: Backup, sha256: str, size: int
) -> bool:
    """Store one artifact; return False if its file is damaged or missing.

    It is then quarantined.
    """
    path = artifact_file(folder, sha256)
    try:
        with sessions.begin() as session:
            store = stores_of(session).for_size(size)
            place = store.put(session, sha256, _verified(path, sha256))
            _set(session, sha256, store=place.store, key=place.key, checked_at=func.now())
    except _NotTheBytes:
        reason = (
            f"The backup of {backup.made_at:%Y-%m-%d %H:%M} UTC does not contain it in full. Run "
            "the job again."
        )
        with sessions.begin() as session:
            _set(session, sha256, store=POSTGRES, key=None, state="quarantined", reason=reason)
        return False
    return True


class _NotTheBytes(Exception):
    """A file of a backup is missing, or its digest differs from its name."""


def _verified(path: Path, sha256: str) -> Iterator[bytes]:
    if not path.exists():
        raise _NotTheBytes
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(READ_BYTES):
            digest.update(content)
            yield content
    if digest.hexdigest() != sha256:
        raise _NotTheBytes


def _set(session: Session, sha256: str, **columns: object) -> None:
    session.execute(
        update(Artifact)
        .where(Artifact.sha256 == sha256)
        .values(columns)
        .execution_options(synchronize_session=False)
    )


def _requeue(session: Session) -> int:
    """Queue the jobs that ran, without counting the attempt.

    Jobs with a pending cancellation or pause are left to the reaper.
    """
    session.execute(
        update(Worker).where(Worker.stopped_at.is_(None)).values(stopped_at=func.clock_timestamp())
    )
    is_running = (
        Job.state == "running",
        Job.cancel_requested_at.is_(None),
        Job.pause_requested_at.is_(None),
    )
    reason = "The database was restored from a backup that was taken while the job ran."
    change = Change("queued", "worker_lost", reason, "lost", uncounted())
    return len(move(session, is_running, change))
