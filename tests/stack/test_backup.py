"""A backup made under load comes back whole, and a damaged one says what it lacks."""

import hashlib
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_claim, a_job, a_made_up_ledger, a_principal
from typer import Typer
from typer.testing import CliRunner

from adaptlab.measurements.results import TrainingSaved
from adaptlab_db.artifacts import CHUNK_BYTES, ArtifactStore, streamed
from adaptlab_db.errors import ArtifactGone
from adaptlab_db.migrate import drift
from adaptlab_db.session import close
from adaptlab_db.tables import Artifact, Checkpoint, Job, TrainingState, Worker
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings
from adaptlab_services.storage import uploads
from adaptlab_services.storage.upload_chunks import AnnouncedChunk, receiving
from adaptlab_services.storage.uploads import NewUpload, UploadLimits
from adaptlab_stack import storage_cli
from adaptlab_stack.backup import artifact_file, back_up
from adaptlab_stack.database import reachable_database
from adaptlab_stack.errors import BackupFailed
from adaptlab_stack.restore import restore

CONTENT = random.Random(3).randbytes(2 * CHUNK_BYTES + 77)
Sessions = sessionmaker[Session]


def settings(url: str, **changes: object) -> Settings:
    return Settings.model_validate({"database_url": url, "broker_url": "redis://none"} | changes)


@pytest.fixture
def source(database_url: str) -> Settings:
    return settings(database_url)


@pytest.fixture
def target(empty_database_url: str) -> Settings:
    return settings(empty_database_url)


@pytest.fixture
def restored(target: Settings) -> Iterator[Sessions]:
    sessions = open_sessions(target)
    yield sessions
    close(sessions)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def write(sessions: Sessions, content: bytes) -> str:
    with sessions.begin() as session:
        sha256 = ArtifactStore(session).write([content]).sha256
        job_id = a_job(session, state="succeeded")
        row = {"job_id": job_id, "attempt": 1, "replicate": 0, "seed": 0, "kind": "adapter",
               "artifact_sha256": sha256, "parameters": 1, "tensors": {}}  # fmt: skip
        session.execute(insert(Checkpoint), [row])
    return sha256


def digests(sessions: Sessions) -> set[str]:
    with sessions() as session:
        return set(session.scalars(select(Artifact.sha256)))


def test_a_backup_under_load_comes_back_whole(
    sessions: Sessions, source: Settings, target: Settings, restored: Sessions, folder: Path
) -> None:
    """While it is made, jobs save states in place of others, whose bytes are let go at once."""
    first = write(sessions, CONTENT)
    ledger = a_made_up_ledger(sessions)
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session)
    claim = a_claim(ledger)
    ended = threading.Event()

    def save_states() -> int:
        step = 0
        while not ended.is_set() or step < 3:
            step += 1
            sha256 = ledger.put_artifact(claim, [CONTENT, b"%d" % step]).sha256
            path = Path("state")
            ledger.record(claim, [TrainingSaved(step=step, path=path)], {path: sha256})
            write(sessions, b"checkpoint %d" % step)
        return step

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(save_states)
        try:
            made = back_up(source, folder)
        finally:
            ended.set()
        assert working.result() >= 3
    assert made.missing == ()

    done = restore(target, folder)
    assert (done.artifacts, done.damaged, done.requeued) == (made.artifacts, (), 1)
    found = digests(restored)
    assert first in found
    assert len(found) == made.artifacts
    assert b"".join(streamed(restored, first)) == CONTENT
    assert sum(len(chunk) for sha in found for chunk in streamed(restored, sha)) == made.bytes
    with restored() as session:
        states = set(session.scalars(select(TrainingState.artifact_sha256)))
        assert states <= found
        assert session.scalars(select(Job.state).where(Job.id == claim.job_id)).one() == "queued"
        assert session.scalars(select(Worker).where(Worker.stopped_at.is_(None))).all() == []
    again = a_claim(a_made_up_ledger(restored))
    assert (again.job_id, again.attempt) == (claim.job_id, claim.attempt + 1)
    assert drift(target.database_url) == []


def test_artifacts_come_back_into_the_store_that_the_settings_name(
    sessions: Sessions, source: Settings, target: Settings, folder: Path, tmp_path: Path
) -> None:
    sha256 = write(sessions, CONTENT)
    back_up(source, folder)
    elsewhere = {"artifact_store": "directory", "artifact_store_from_bytes": 0}
    changed = settings(target.database_url, artifact_folder=tmp_path / "new", **elsewhere)
    restore(changed, folder)
    known = open_sessions(changed)
    with known() as session:
        assert ArtifactStore(session).locate(sha256).place.store == "directory"
    assert b"".join(streamed(known, sha256)) == CONTENT
    close(known)


@pytest.mark.parametrize("fault", ["flipped", "lost"])
def test_a_damaged_file_is_found_and_the_rest_comes_back(
    sessions: Sessions,
    source: Settings,
    target: Settings,
    restored: Sessions,
    folder: Path,
    fault: str,
) -> None:
    good, bad = write(sessions, CONTENT), write(sessions, CONTENT[1:])
    back_up(source, folder)
    path = artifact_file(folder, bad)
    if fault == "flipped":
        path.write_bytes(CONTENT[1:-1] + bytes([CONTENT[-1] ^ 1]))
    else:
        path.unlink()
    done = restore(target, folder)
    assert (done.artifacts, done.damaged) == (1, (bad,))
    assert b"".join(streamed(restored, good)) == CONTENT
    with pytest.raises(ArtifactGone, match="does not contain it in full"):
        next(streamed(restored, bad))


def test_bytes_that_are_damaged_already_are_told(
    sessions: Sessions, source: Settings, folder: Path
) -> None:
    good, bad = write(sessions, b"good"), write(sessions, b"bad")
    with sessions.begin() as session:
        session.execute(
            text("UPDATE artifact_chunks SET content = 'bat' WHERE sha256 = :bad"), {"bad": bad}
        )
    made = back_up(source, folder)
    assert (made.artifacts, made.bytes, made.missing) == (1, 4, (bad,))
    assert artifact_file(folder, good).read_bytes() == b"good"
    assert not artifact_file(folder, bad).exists()


def test_what_was_quarantined_is_looked_for_nowhere(
    sessions: Sessions, source: Settings, target: Settings, restored: Sessions, folder: Path
) -> None:
    sha256 = write(sessions, CONTENT)
    elsewhere = {"store": "directory", "key": "ab/cd/of the old place"}
    with sessions.begin() as session:
        gone = update(Artifact).values(state="quarantined", reason="It is damaged.", **elsewhere)
        session.execute(gone)
    back_up(source, folder)
    restore(target, folder)
    with restored() as session:
        found = session.scalars(select(Artifact).where(Artifact.sha256 == sha256)).one()
    assert (found.store, found.key, found.state) == ("postgres", None, "quarantined")
    assert found.reason == "It is damaged."


def test_uploads_that_were_open_are_begun_anew(
    sessions: Sessions, source: Settings, target: Settings, restored: Sessions, folder: Path
) -> None:
    """Their chunks are in no backup, and what says so must not come back either."""
    with sessions.begin() as session:
        who = a_principal(session)
        new = NewUpload(size_bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
        begun = uploads.begin(session, who, new, UploadLimits(2**30, 8)).upload
    chunk = AnnouncedChunk(begun.id, 0, new.sha256)
    writing = receiving(sessions, who, chunk)
    writing.finish([CONTENT[i : i + CHUNK_BYTES] for i in range(0, len(CONTENT), CHUNK_BYTES)])
    assert back_up(source, folder).missing == ()
    restore(target, folder)
    with restored() as session:
        assert session.scalars(select(Artifact)).all() == []
        assert uploads.page(session, who).data == ()


def test_only_an_empty_database_is_filled(sessions: Sessions, source: Settings, folder: Path):
    sha256 = write(sessions, b"before")
    back_up(source, folder)
    write(sessions, b"after")
    with pytest.raises(BackupFailed, match=r"has [0-9]+ tables"):
        restore(source, folder)
    assert len(digests(sessions)) == 2
    assert b"".join(streamed(sessions, sha256)) == b"before"


def test_only_a_whole_backup_is_restored(source: Settings, target: Settings, folder: Path) -> None:
    with pytest.raises(BackupFailed, match="does not contain a complete backup"):
        restore(target, folder)
    back_up(source, folder)
    contents = folder / "backup.json"
    whole = contents.read_text()
    contents.write_text(whole.replace('"format": 1', '"format": 2'))
    with pytest.raises(BackupFailed, match="has the format 2"):
        restore(target, folder)
    contents.write_text(whole)
    (folder / "database.dump").write_bytes(b"PGDMP")
    with pytest.raises(BackupFailed, match="pg_restore ended with status 1"):
        restore(target, folder)


def test_a_folder_is_not_written_twice(source: Settings, folder: Path) -> None:
    back_up(source, folder)
    with pytest.raises(BackupFailed, match="is not empty"):
        back_up(source, folder)


def test_nobody_else_may_read_a_backup(sessions: Sessions, source: Settings, folder: Path) -> None:
    write(sessions, CONTENT)
    back_up(source, folder)
    modes = {path.stat().st_mode & 0o77 for path in (folder, *folder.rglob("*"))}
    assert modes == {0}


# --- the commands ---


def run(command: object, *arguments: str) -> tuple[int, str]:
    application = Typer()
    application.command()(command)  # type: ignore[type-var]
    done = CliRunner().invoke(application, list(arguments))
    return done.exit_code, done.output


def test_the_commands_work_on_the_database_that_is_named(
    sessions: Sessions,
    source: Settings,
    target: Settings,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sha256 = write(sessions, CONTENT)
    data = ("--data-dir", str(tmp_path / "data"))
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL", source.database_url)
    monkeypatch.setenv("ADAPTLAB_ARTIFACT_FOLDER", str(tmp_path / "artifacts"))
    storage = storage_cli.storage
    assert "--to" in run(storage, "move", *data)[1]
    assert run(storage, "move", "--to", "directory", *data)[0] == 0
    code, told = run(storage, "status", *data)
    assert (code, "directory ready" in told, str(len(CONTENT)) in told) == (0, True, True)
    assert "checked 1 artifacts" in run(storage, "scrub", "--all", *data)[1]
    assert "collected 0 unreferenced" in run(storage, "collect", *data)[1]
    assert run(storage_cli.backup, str(folder), *data)[0] == 0
    assert run(storage_cli.backup, str(folder), *data)[0] == 1
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL", target.database_url)
    assert "restored 1 artifacts; 0 jobs" in run(storage_cli.restore, str(folder), *data)[1]
    monkeypatch.delenv("ADAPTLAB_ARTIFACT_FOLDER")
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL", source.database_url)
    code, told = run(storage, "move", "--to", "postgres", *data)
    assert code == 1
    assert "ADAPTLAB_ARTIFACT_FOLDER" in told
    with sessions.begin() as session:
        session.execute(update(Artifact).values(store="postgres", key=None))
    code, told = run(storage_cli.backup, str(tmp_path / "not whole"), *data)
    assert (code, f"missing from the backup: {sha256}" in told, "--allow-missing" in told) == (
        1,
        True,
        True,
    )
    allowed = run(storage_cli.backup, str(tmp_path / "allowed"), "--allow-missing", *data)
    assert (allowed[0], f"missing from the backup: {sha256}" in allowed[1]) == (0, True)
    code, told = run(storage, "scrub", "--all", *data)
    assert (code, f"quarantined: {sha256}" in told) == (1, True)


def test_postgres_is_started_for_the_while_where_none_runs(
    open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADAPTLAB_DATABASE_URL", raising=False)
    for _ in range(2):
        with reachable_database(open_path / "data") as url:
            sessions = open_sessions(settings(url))
            with sessions() as session:
                assert session.scalar(text("SELECT 1")) == 1
            close(sessions)
