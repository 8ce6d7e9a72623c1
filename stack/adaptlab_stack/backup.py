"""A copy of everything in a folder: the database's dump, and every artifact as a file."""

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
from adaptlab_db.stores.store import Place
from adaptlab_db.tables import Artifact
from adaptlab_services.server.stores import stores
from adaptlab_services.settings import Settings
from adaptlab_stack.binaries import find_postgres
from adaptlab_stack.errors import BackupFailed

FORMAT = 1
DUMP = "database.dump"
CONTENTS = "backup.json"
Found = Row[str, int, str, str | None]


class Backup(Value):
    """What a backup holds; written last, so that a folder with it is whole.

    `missing` names the artifacts whose bytes could not be had, or were not the right ones.
    """

    format: int = FORMAT
    version: str
    revision: str
    made_at: datetime
    artifacts: int
    bytes: int
    missing: tuple[str, ...]


def back_up(settings: Settings, folder: Path) -> Backup:
    """Copy everything as it is at one moment, while the server goes on working.

    Raises:
        BackupFailed: the folder is not empty, or the database could not be dumped.
        StoreUnreachable: a store of artifacts did not answer.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise BackupFailed(f"{folder} is not empty. Name a new folder.")
    # Without the limits of a server's sessions: the snapshot is held while everything is copied.
    sessions = session_factory(settings.database_url, stores(settings))
    try:
        made = _copy(sessions, settings.database_url, folder)
    finally:
        close(sessions)
    write_durably(folder / CONTENTS, [made.model_dump_json(indent=2).encode()])
    return made


def artifact_file(folder: Path, sha256: str) -> Path:
    """Where a backup keeps an artifact."""
    return folder / "artifacts" / sha256[:2] / sha256[2:4] / sha256


def run_program(name: str, database_url: str, *arguments: str) -> None:
    """Run one of Postgres's own programs on a database; raises `BackupFailed`."""
    program = find_postgres().directory / name
    url = make_url(database_url)
    # The password goes by the environment: arguments can be read by everybody on the machine.
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
        # The bytes are copied below, once, as files: in the dump each would take two.
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
        found = session.execute(
            select(Artifact.sha256, Artifact.size, Artifact.store, Artifact.key)
            .where(Artifact.state == "ready")
            .order_by(Artifact.sha256)
        ).all()
        missing = [row.sha256 for row in found if not _copy_artifact(session, row, folder)]
    copied = [row.size for row in found if row.sha256 not in missing]
    return Backup(
        version=version("adaptlab"),
        revision=revision,
        made_at=datetime.now(UTC),
        artifacts=len(copied),
        bytes=sum(copied),
        missing=tuple(missing),
    )


def _open_snapshot(session: Session) -> tuple[str, str]:
    """Begin a transaction in which everything stays as it is now; its name, and the revision."""
    session.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
    for limit in ("idle_in_transaction_session_timeout", "statement_timeout"):
        session.execute(text(f"SET LOCAL {limit} = 0"))
    snapshot = session.scalars(text("SELECT pg_export_snapshot()")).one()
    revision = session.scalars(text("SELECT version_num FROM alembic_version")).one()
    return str(snapshot), str(revision)


def _copy_artifact(session: Session, row: Found, folder: Path) -> bool:
    """Write one artifact as a file; false, with no file, if its bytes are not the right ones."""
    path = artifact_file(folder, row.sha256)
    for above in (path.parents[2], path.parents[1], path.parent):
        above.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    try:
        write_durably(path, _bytes(session, row, digest.update))
    except BytesMissing:  # deleted since the snapshot: outside the database nothing holds them
        path.unlink()
        return False
    if digest.hexdigest() == row.sha256:
        return True
    path.unlink()
    return False


def _bytes(session: Session, row: Found, seen: Callable[[bytes], None]) -> Iterator[bytes]:
    store, place = stores_of(session).named(row.store), Place(row.store, row.sha256, row.key)
    start = 0
    while start < row.size:
        content = store.read(session, place, start, row.size)
        seen(content)
        start += len(content)
        yield content
