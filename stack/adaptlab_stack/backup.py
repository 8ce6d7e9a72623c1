"""Backups: a folder with the database's dump and every artifact as a file."""

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import Row, make_url, select, text
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.values import Value
from adaptlab_db.artifacts import stores_of
from adaptlab_db.errors import BytesMissing
from adaptlab_db.session import close, session_factory
from adaptlab_db.stores.directory import write_durably
from adaptlab_db.stores.store import BytesPlace
from adaptlab_db.tables import Artifact
from adaptlab_services.server.stores import stores
from adaptlab_services.settings import Settings
from adaptlab_stack.binaries import find_postgres
from adaptlab_stack.errors import BackupFailed

FORMAT = 1
DUMP = "database.dump"
CONTENTS = "backup.json"
ArtifactRow = Row[str, int, str, str | None]


class Backup(Value):
    """The contents of a backup; written last, so a folder with it is complete.

    `missing` lists artifacts whose bytes were missing or damaged.
    """

    format: int = FORMAT
    version: str
    revision: str
    made_at: datetime
    artifacts: int
    bytes: int
    missing: tuple[str, ...]


def back_up(settings: Settings, folder: Path) -> Backup:
    """Copy the state of one moment while the server keeps running.

    Raises:
        BackupFailed: the folder is not empty, or the database could not be dumped.
        StoreUnreachable: a store of artifacts did not answer.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise BackupFailed(f"{folder} is not empty. Name a new folder.")
    # Without the time limits of a server's sessions: the snapshot is held during the whole copy.
    sessions = session_factory(settings.database_url, stores(settings))
    try:
        contents = _copy(sessions, settings.database_url, folder)
    finally:
        close(sessions)
    write_durably(folder / CONTENTS, [contents.model_dump_json(indent=2).encode()])
    return contents


def artifact_file(folder: Path, sha256: str) -> Path:
    """Return the path of an artifact in a backup."""
    return folder / "artifacts" / sha256[:2] / sha256[2:4] / sha256


def run_program(name: str, database_url: str, *arguments: str) -> None:
    """Run one of Postgres' own programs on a database; raises `BackupFailed`."""
    program = find_postgres().directory / name
    url = make_url(database_url)
    # The password is passed in the environment, because every user can read arguments.
    address = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    done = subprocess.run(
        [program, *arguments, f"--dbname={address}"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PGPASSWORD": url.password or ""},
    )
    if done.returncode != 0:
        raise BackupFailed(f"{name} ended with status {done.returncode}: {done.stderr.strip()}")


def _copy(sessions: sessionmaker[Session], database_url: str, folder: Path) -> Backup:
    with sessions() as session:
        snapshot, revision = _open_snapshot(session)
        # The bytes are copied as files below: in the dump each would take two bytes.
        run_program(
            "pg_dump",
            database_url,
            "--format=custom",
            "--no-password",
            f"--snapshot={snapshot}",
            "--exclude-table-data=artifact_chunks",
            f"--file={folder / DUMP}",
        )
        (folder / DUMP).chmod(0o600)
        rows = session.execute(
            select(Artifact.sha256, Artifact.size, Artifact.store, Artifact.key)
            .where(Artifact.state == "ready")
            .order_by(Artifact.sha256)
        ).all()
        missing = [row.sha256 for row in rows if not _copy_artifact(session, row, folder)]
    copied = [row.size for row in rows if row.sha256 not in missing]
    return Backup(
        version=version("adaptlab"),
        revision=revision,
        made_at=datetime.now(UTC),
        artifacts=len(copied),
        bytes=sum(copied),
        missing=tuple(missing),
    )


def _open_snapshot(session: Session) -> tuple[str, str]:
    """Begin a transaction on a snapshot; return its name and the revision."""
    session.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    for limit in ("idle_in_transaction_session_timeout", "statement_timeout"):
        session.execute(text(f"SET LOCAL {limit} = 0"))
    snapshot = session.scalars(text("SELECT pg_export_snapshot()")).one()
    revision = session.scalars(text("SELECT version_num FROM alembic_version")).one()
    return str(snapshot), str(revision)


def _copy_artifact(session: Session, row: ArtifactRow, folder: Path) -> bool:
    """Write one artifact as a file; return False if its bytes are damaged.

    No file remains in that case.
    """
    path = artifact_file(folder, row.sha256)
    for parent in (path.parents[2], path.parents[1], path.parent):
        parent.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    try:
        write_durably(path, _bytes(session, row, digest.update))
    except BytesMissing:  # deleted since the snapshot, which covers only the database
        path.unlink()
        return False
    if digest.hexdigest() == row.sha256:
        return True
    path.unlink()
    return False


def _bytes(session: Session, row: ArtifactRow, seen: Callable[[bytes], None]) -> Iterator[bytes]:
    store, place = stores_of(session).named(row.store), BytesPlace(row.store, row.sha256, row.key)
    start = 0
    while start < row.size:
        content = store.read(session, place, start, row.size)
        seen(content)
        start += len(content)
        yield content
