"""Upkeep with a missing disk, or with too much to do at once."""

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import ArtifactStore, streamed
from adaptlab_db.errors import StoreUnreachable
from adaptlab_db.session import session_factory
from adaptlab_db.stores.directory import MARKER, DirectoryStore
from adaptlab_db.stores.postgres import PostgresStore
from adaptlab_db.stores.store import BytesPlace, Stores
from adaptlab_db.tables import Artifact
from adaptlab_services.storage import collecting
from adaptlab_services.storage.collecting import collect
from adaptlab_services.storage.scrubbing import scrub

Sessions = sessionmaker[Session]


class Interrupted(DirectoryStore):
    """A directory in which something happens while a file is read."""

    meanwhile: Callable[[], object] | None = None

    def read(self, session: Session, place: BytesPlace, start: int, stop: int) -> bytes:
        content = super().read(session, place, start, stop)
        if (act := self.meanwhile) is not None:
            self.meanwhile = None
            act()
        return content


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def directory(folder: Path) -> Interrupted:
    return Interrupted(folder)


@pytest.fixture
def known(sessions: Sessions, directory: Interrupted) -> Sessions:
    """Sessions of a process that writes to the directory."""
    engine: Engine = sessions.kw["bind"]
    stores = {"postgres": PostgresStore(), "directory": directory}
    return session_factory(engine, Stores(stores, "directory"))


def write(sessions: Sessions, content: bytes) -> str:
    with sessions.begin() as session:
        return ArtifactStore(session).write([content]).sha256


def read(sessions: Sessions, sha256: str) -> bytes:
    return b"".join(streamed(sessions, sha256))


@contextmanager
def counted_rows(sessions: Sessions, beginning: str) -> Generator[list[int]]:
    """How many rows each statement that begins so was about."""
    engine: Engine = sessions.kw["bind"]
    counts: list[int] = []

    def count(_: object, cursor: Any, statement: str, *_rest: object) -> None:
        if statement.startswith(beginning) and "FROM artifacts" in statement:
            counts.append(cursor.rowcount)

    event.listen(engine, "after_cursor_execute", count)
    try:
        yield counts
    finally:
        event.remove(engine, "after_cursor_execute", count)


# --- a folder that is not mounted ---


@pytest.mark.parametrize("leaves_mount_point", [False, True])
def test_a_folder_that_is_not_mounted_is_not_taken_for_empty(
    known: Sessions, folder: Path, tmp_path: Path, leaves_mount_point: bool
) -> None:
    sha256 = write(known, b"content")
    shutil.move(folder, tmp_path / "unmounted")
    if leaves_mount_point:
        folder.mkdir()
    assert scrub(known).quarantined == ()
    with pytest.raises(StoreUnreachable, match=f"no file '{MARKER}' in it; mount the folder"):
        read(known, sha256)
    with pytest.raises(StoreUnreachable, match="mount the folder"):
        write(known, b"other")
    assert folder.exists() == leaves_mount_point
    assert not leaves_mount_point or [*folder.iterdir()] == [], "nothing hidden below the mount"
    if leaves_mount_point:
        folder.rmdir()
    shutil.move(tmp_path / "unmounted", folder)
    assert scrub(known).checked == 1
    assert read(known, sha256) == b"content"


def test_a_file_that_is_lost_is_still_told_from_a_folder_that_is(
    known: Sessions, folder: Path
) -> None:
    sha256 = write(known, b"content")
    for path in folder.glob("*/*/*"):
        path.unlink()
    assert scrub(known).quarantined == (sha256,)


def test_a_folder_of_an_earlier_version_gets_its_marker(known: Sessions, folder: Path) -> None:
    sha256 = write(known, b"content")
    (folder / MARKER).unlink()
    write(known, b"other")
    assert (folder / MARKER).exists()
    (folder / MARKER).unlink()
    assert scrub(known).checked == 2
    assert read(known, sha256) == b"content"


# --- as much at a time as there is room for ---


def many_artifacts(sessions: Sessions, count: int) -> None:
    """One byte each is enough, and none of them is there."""
    rows = (
        "INSERT INTO artifacts (sha256, size, created_at) SELECT encode(sha256(n::text::bytea), "
        "'hex'), 1, now() - interval '90 days' FROM generate_series(1, :count) n"
    )
    with sessions.begin() as session:
        session.execute(text(rows), {"count": count})


def test_a_round_of_scrubbing_asks_for_no_more_rows_than_it_needs(sessions: Sessions) -> None:
    many_artifacts(sessions, 250)
    with counted_rows(sessions, "SELECT") as counts:
        assert scrub(sessions, timedelta(days=30), most_bytes=1).checked == 1
    assert max(counts) == 100
    found = scrub(sessions)
    assert found.checked == len(set(found.quarantined)) == 250, "each once"


def test_one_statement_deletes_no_more_bytes_than_are_good_for_the_others(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "AT_ONCE_BYTES", 10)
    for size, start in ((4, 0), (4, 1), (4, 2), (30, 3), (1, 4)):
        write(sessions, bytes(range(start, start + size)))
    with sessions.begin() as session:
        session.execute(update(Artifact).values(last_referenced_at=func.now() - timedelta(days=2)))
        sizes = session.scalars(select(Artifact.size).order_by(Artifact.sha256)).all()
    with counted_rows(sessions, "DELETE") as counts:
        assert collect(sessions).size == sum(sizes)
    taken = iter(sizes)
    batches = [[next(taken) for _ in range(count)] for count in counts]
    assert sum(counts) == 5
    assert all(sum(batch) <= 10 or len(batch) == 1 for batch in batches)
    assert len([batch for batch in batches if batch]) >= 3


def test_what_somebody_else_mended_meanwhile_is_not_counted(
    known: Sessions, directory: Interrupted
) -> None:
    sha256 = write(known, b"content")
    with known.begin() as session:
        session.execute(update(Artifact).values(state="quarantined", reason="It was away."))
    directory.meanwhile = lambda: write(known, b"content")
    found = scrub(known)
    assert (found.checked, found.repaired) == (1, 0)
    assert read(known, sha256) == b"content"
