"""Backups under load come back whole; damaged ones are reported."""

import hashlib
import random
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.databases import Databases
from tests.making import a_base_model, a_claim, a_job, a_made_up_ledger, a_principal
from typer import Typer
from typer.testing import CliRunner

from adaptlab.runs.events import TrainingSaved
from adaptlab_db.artifacts import CHUNK_BYTES, ArtifactStore, streamed
from adaptlab_db.errors import ArtifactGone, TablesTooOld
from adaptlab_db.migrate import drift
from adaptlab_db.session import close
from adaptlab_db.tables import Artifact, CheckpointRow, Job, TrainingStateRow, Worker
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings
from adaptlab_services.storage import uploads
from adaptlab_services.storage.upload_chunks import AnnouncedChunk, receiving
from adaptlab_services.storage.uploads import NewUpload, UploadLimits
from adaptlab_stack import storage_cli
from adaptlab_stack.backup import Backup, artifact_file, back_up
from adaptlab_stack.database import reachable_database
from adaptlab_stack.errors import BackupFailed
from adaptlab_stack.restore import Restored, restore

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
        session.execute(insert(CheckpointRow), [row])
    return sha256


def digests(sessions: Sessions) -> set[str]:
    with sessions() as session:
        return set(session.scalars(select(Artifact.sha256)))


@dataclass(frozen=True)
class UnderLoad:
    """A backup made while a job saved states, and its restoration."""

    url: str
    sessions: Sessions
    claim: Claim
    first: str
    steps: int
    backup: Backup
    restored: Restored


@pytest.fixture(scope="module")
def under_load(
    shared_database_url: str,
    shared_sessions: Sessions,
    databases: Databases,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[UnderLoad]:
    """States are saved in place of others, whose bytes are let go at once."""
    first = write(shared_sessions, CONTENT)
    with shared_sessions.begin() as session:
        a_base_model(session)
        a_job(session)
    ledger = a_made_up_ledger(shared_sessions)
    claim = a_claim(ledger)
    folder = tmp_path_factory.mktemp("under-load") / "backup"
    backup, steps = back_up_under_load(shared_sessions, ledger, claim, shared_database_url, folder)
    with databases.copy_of("template0") as url:
        target = settings(url)
        restored = restore(target, folder)
        sessions = open_sessions(target)
        yield UnderLoad(url, sessions, claim, first, steps, backup, restored)
        close(sessions)


def back_up_under_load(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim, url: str, folder: Path
) -> tuple[Backup, int]:
    """Return the backup and the number of states saved meanwhile.

    At least three states are saved.
    """
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
        saving = pool.submit(save_states)
        try:
            backup = back_up(settings(url), folder)
        finally:
            ended.set()
        return backup, saving.result()


def test_a_backup_under_load_lacks_nothing_and_fits_the_tables(under_load: UnderLoad) -> None:
    assert under_load.steps >= 3
    assert under_load.backup.missing == ()
    assert drift(under_load.url) == []


def test_every_artifact_of_a_backup_under_load_comes_back(under_load: UnderLoad) -> None:
    backup, sessions = under_load.backup, under_load.sessions
    assert (under_load.restored.artifacts, under_load.restored.damaged) == (backup.artifacts, ())
    stored = digests(sessions)
    assert under_load.first in stored
    assert len(stored) == backup.artifacts
    assert b"".join(streamed(sessions, under_load.first)) == CONTENT
    assert sum(len(chunk) for sha in stored for chunk in streamed(sessions, sha)) == backup.bytes
    with sessions() as session:
        assert set(session.scalars(select(TrainingStateRow.artifact_sha256))) <= stored


def test_a_job_that_ran_during_a_backup_is_queued_again_and_its_worker_is_gone(
    under_load: UnderLoad,
) -> None:
    assert under_load.restored.requeued == 1
    claim = under_load.claim
    with under_load.sessions() as session:
        assert session.scalars(select(Job.state).where(Job.id == claim.job_id)).one() == "queued"
        assert session.scalars(select(Worker).where(Worker.stopped_at.is_(None))).all() == []
    again = a_claim(a_made_up_ledger(under_load.sessions))
    assert (again.job_id, again.attempt) == (claim.job_id, claim.attempt + 1)


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
    """Their chunks are in no backup, so the rows must not return either."""
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
    contents.write_text(re.sub(r'"revision": "\d+"', '"revision": "0025"', whole))
    with pytest.raises(TablesTooOld, match="revision 0025"):
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


@pytest.fixture
def data(source: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The data directory's option; the environment names the database."""
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL", source.database_url)
    monkeypatch.setenv("ADAPTLAB_ARTIFACT_FOLDER", str(tmp_path / "artifacts"))
    return "--data-dir", str(tmp_path / "data")


@pytest.fixture
def moved(sessions: Sessions, data: tuple[str, str]) -> str:
    """The digest of an artifact that a command has moved to the folder."""
    sha256 = write(sessions, CONTENT)
    assert run(storage_cli.storage, "move", "--to", "directory", *data)[0] == 0
    return sha256


@pytest.mark.usefixtures("moved")
def test_commands_show_check_and_collect_what_they_have_moved(data: tuple[str, str]) -> None:
    storage = storage_cli.storage
    assert "--to" in run(storage, "move", *data)[1]
    code, output = run(storage, "status", *data)
    assert (code, "directory ready" in output, str(len(CONTENT)) in output) == (0, True, True)
    assert "checked 1 artifacts" in run(storage, "scrub", "--all", *data)[1]
    assert "collected 0 unreferenced" in run(storage, "collect", *data)[1]


@pytest.mark.usefixtures("moved")
def test_commands_back_up_and_restore_the_database_that_is_named(
    target: Settings, folder: Path, data: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(storage_cli.backup, str(folder), *data)[0] == 0
    assert run(storage_cli.backup, str(folder), *data)[0] == 1
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL", target.database_url)
    assert "restored 1 artifacts; 0 jobs" in run(storage_cli.restore, str(folder), *data)[1]


@pytest.mark.usefixtures("moved")
def test_a_command_names_the_setting_of_a_store_that_has_none(
    data: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADAPTLAB_ARTIFACT_FOLDER")
    code, output = run(storage_cli.storage, "move", "--to", "postgres", *data)
    assert code == 1
    assert "ADAPTLAB_ARTIFACT_FOLDER" in output


def test_a_backup_without_all_bytes_fails_unless_that_is_accepted(
    sessions: Sessions, moved: str, data: tuple[str, str], tmp_path: Path
) -> None:
    with sessions.begin() as session:
        session.execute(update(Artifact).values(store="postgres", key=None))
    missing = f"missing from the backup: {moved}"
    code, output = run(storage_cli.backup, str(tmp_path / "not whole"), *data)
    assert (code, missing in output, "--allow-missing" in output) == (1, True, True)
    code, output = run(storage_cli.backup, str(tmp_path / "allowed"), "--allow-missing", *data)
    assert (code, missing in output) == (0, True)
    code, output = run(storage_cli.storage, "scrub", "--all", *data)
    assert (code, f"quarantined: {moved}" in output) == (1, True)


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
