"""Collecting, scrubbing and moving, which readers do not notice."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, insert, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_claim, a_job, a_made_up_ledger
from tests.watching import nobody_works, until

from adaptlab.runs.events import TrainingSaved
from adaptlab_db.artifacts import CHUNK_BYTES, ArtifactStore, streamed
from adaptlab_db.errors import ArtifactGone, ArtifactNotFound, StoreUnreachable
from adaptlab_db.migrate import scratch_database, upgrade
from adaptlab_db.session import close, session_factory
from adaptlab_db.stores.directory import MARKER, DirectoryStore
from adaptlab_db.stores.postgres import PostgresStore
from adaptlab_db.stores.store import BytesPlace, StoreName, Stores, owner_of
from adaptlab_db.tables import Artifact, CheckpointRow
from adaptlab_services.errors import LedgerUnreachable
from adaptlab_services.lifecycle.held_leases import Lease
from adaptlab_services.storage import collecting
from adaptlab_services.storage.collecting import Collected, Retention, collect
from adaptlab_services.storage.moving_artifacts import move_artifacts
from adaptlab_services.storage.scrubbing import scrub
from adaptlab_services.storage.storage_status import status
from adaptlab_stack.servers import Servers

Sessions = sessionmaker[Session]
CONTENT = random.Random(5).randbytes(3 * CHUNK_BYTES + 99)


class Fragile(DirectoryStore):
    """A directory that can be taken away."""

    is_away = False

    def read(self, session: Session, place: BytesPlace, start: int, stop: int) -> bytes:
        if self.is_away:
            raise StoreUnreachable("directory", "nowhere", "it is away")
        return super().read(session, place, start, stop)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def directory(folder: Path) -> Fragile:
    return Fragile(folder)


@pytest.fixture
def in_store(sessions: Sessions, directory: Fragile) -> Callable[[StoreName], Sessions]:
    """Sessions of a process that writes to one of two stores."""

    def choose(name: StoreName) -> Sessions:
        engine: Engine = sessions.kw["bind"]
        return session_factory(
            engine, Stores({"postgres": PostgresStore(), "directory": directory}, name)
        )

    return choose


@pytest.fixture(params=["postgres", "directory"])
def known(request: pytest.FixtureRequest, in_store: Callable[[StoreName], Sessions]) -> Sessions:
    return in_store(request.param)


def write(sessions: Sessions, content: bytes) -> str:
    with sessions.begin() as session:
        return ArtifactStore(session).write([content]).sha256


def read(sessions: Sessions, sha256: str) -> bytes:
    return b"".join(streamed(sessions, sha256))


def is_known(sessions: Sessions, sha256: str) -> bool:
    try:
        read(sessions, sha256)
    except ArtifactNotFound:
        return False
    return True


def set_back(sessions: Sessions, **columns: Any) -> None:
    """Make all artifacts older."""
    with sessions.begin() as session:
        session.execute(update(Artifact).values(columns))


def long_ago(hours: float) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


def a_checkpoint(session: Session, job_id: UUID, sha256: str) -> None:
    row = {"job_id": job_id, "attempt": 1, "replicate": 0, "seed": 0, "kind": "adapter",
           "artifact_sha256": sha256, "parameters": 1, "tensors": {}}  # fmt: skip
    session.execute(insert(CheckpointRow), [row])


def a_job_with_file(
    sessions: Sessions, content: bytes, days: float, state: str = "succeeded", **columns: Any
) -> str:
    """The digest of the checkpoint of a job that ended some days ago."""
    sha256 = write(sessions, content)
    with sessions.begin() as session:
        if state == "succeeded":
            columns["finished_at"] = long_ago(24 * days)
        job_id = a_job(session, state=state, **columns)
        a_checkpoint(session, job_id, sha256)
    return sha256


# --- collecting what nothing refers to ---


def test_only_what_nothing_refers_to_for_a_day_is_collected(known: Sessions, folder: Path) -> None:
    old, used = write(known, b"old"), a_job_with_file(known, b"used", days=0)
    set_back(known, last_referenced_at=long_ago(25))
    new = write(known, b"new")
    assert collect(known) == Collected(unreferenced=1, size=3)
    assert [is_known(known, sha256) for sha256 in (old, used, new)] == [False, True, True]
    assert not list(folder.glob(f"*/*/{old}-*")), "the bytes are gone too"


def test_writing_it_again_keeps_it(known: Sessions) -> None:
    sha256 = write(known, b"content")
    set_back(known, last_referenced_at=long_ago(25))
    assert write(known, b"content") == sha256
    assert collect(known) == Collected()
    assert read(known, sha256) == b"content"


def test_what_is_just_being_referred_to_is_let_be(known: Sessions) -> None:
    sha256 = write(known, b"content")
    set_back(known, last_referenced_at=long_ago(25))
    with known.begin() as session:
        a_checkpoint(session, a_job(session, state="succeeded"), sha256)
        assert collect(known) == Collected()
    assert collect(known) == Collected()
    assert read(known, sha256) == b"content"


def test_a_reference_between_the_look_and_the_lock_counts(
    known: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it had been committed after the first look, which did not see it."""
    used = a_job_with_file(known, b"used", days=0)
    set_back(known, last_referenced_at=long_ago(25))
    monkeypatch.setattr(collecting, "_locked", lambda *_: [used])
    assert collect(known, Retention(checkpoint_days=1)) == Collected()
    assert read(known, used) == b"used"


def test_writers_and_collectors_at_once_lose_nothing(known: Sessions) -> None:
    """With no time of grace, so that everything rests on the locks."""
    ended = threading.Event()
    jobs: list[UUID] = []
    with known.begin() as session:
        jobs += [a_job(session, state="succeeded") for _ in range(24)]

    def collect_all() -> None:
        while not ended.is_set():
            collect(known, unreferenced_for=timedelta(0))

    def write_one(number: int) -> str:
        content = b"shared content %d" % (number % 3)
        with known.begin() as session:
            sha256 = ArtifactStore(session).write([content]).sha256
            a_checkpoint(session, jobs[number], sha256)
        return sha256

    with ThreadPoolExecutor(4) as pool:
        collectors = [pool.submit(collect_all) for _ in range(2)]
        try:
            written = [write_one(number) for number in range(24)]
        finally:
            ended.set()
        for collector in collectors:
            collector.result()
    assert all(read(known, sha256).startswith(b"shared") for sha256 in written)


def test_files_that_no_artifact_has_are_deleted_after_a_day(
    in_store: Callable[[StoreName], Sessions], folder: Path
) -> None:
    known = in_store("directory")
    kept = write(known, b"kept")
    with known() as session:  # the process dies before it could write the artifact down
        ArtifactStore(session).write([b"stray"])
        half = owner_of(session) + 24 * "0"
    (folder / "incoming" / half).write_bytes(b"half")
    (folder / "README").write_text("Not ours, and left alone.")
    assert collect(known) == Collected()
    assert collect(known, strays_after=timedelta(seconds=-1)).strays == 2
    left = {path.name[:64] for path in folder.rglob("*") if path.is_file()}
    assert left == {kept, "README", MARKER}


def test_another_database_may_share_the_folder(
    in_store: Callable[[StoreName], Sessions], folder: Path, servers: Servers
) -> None:
    """Such as one that was restored from a backup, with the same settings."""
    with scratch_database(servers.database_url) as url:
        upgrade(url)
        known = {"postgres": PostgresStore(), "directory": DirectoryStore(folder)}
        other = session_factory(url, Stores(known, "directory"))
        sha256 = write(other, b"of the other")
        (folder / "incoming" / (24 * "0" + "12345678")).write_bytes(b"half of the other")
        assert collect(in_store("directory"), strays_after=timedelta(seconds=-1)) == Collected()
        assert read(other, sha256) == b"of the other"
        close(other)


# --- keeping files of jobs for some days ---


def test_files_of_jobs_that_ended_long_ago_are_collected_with_the_reason(known: Sessions) -> None:
    old, new = (a_job_with_file(known, b"%d days" % days, days) for days in (8, 6))
    assert collect(known, Retention(attention_days=1)) == Collected()
    assert collect(known, Retention(checkpoint_days=7)) == Collected(expired=1, size=6)
    with pytest.raises(ArtifactGone, match=r"collected: .* checkpoints 7[.] Run the job again"):
        read(known, old)
    assert read(known, new) == b"6 days"
    assert collect(known, Retention(checkpoint_days=7)) == Collected(), "once"
    write(known, b"8 days")
    assert read(known, old) == b"8 days", "until somebody makes it again"


@pytest.mark.parametrize(
    "columns", [{"labels": {"keep": "yes"}}, {"state": "running"}, {"state": "paused"}]
)
def test_files_that_are_to_be_kept_or_needed_stay(known: Sessions, columns: dict[str, Any]) -> None:
    sha256 = a_job_with_file(known, b"content", 100, **columns)
    assert collect(known, Retention(1, 1)) == Collected()
    assert read(known, sha256) == b"content"


def test_a_file_that_a_newer_job_has_too_stays(known: Sessions) -> None:
    old = a_job_with_file(known, b"content", 100)
    assert a_job_with_file(known, b"content", 0) == old
    assert collect(known, Retention(1, 1)) == Collected()


def test_base_models_stay(known: Sessions) -> None:
    with known.begin() as session:
        a_base_model(session, contents=(b"weights",), finished_at=long_ago(10_000))
    assert collect(known, Retention(1, 1)) == Collected()


@pytest.mark.parametrize(("state", "left"), [("waiting", True), ("succeeded", False)])
def test_what_an_unfinished_check_measures_stays(known: Sessions, state: str, left: bool) -> None:
    a_job_with_file(known, b"content", 100)
    with known.begin() as session:
        maker = session.scalars(select(CheckpointRow.job_id)).one()
        measures = {"adaptations": [{"job": str(maker)}]}
        a_job(session, state=state, kind="theory", resolved_spec=measures)
    assert collect(known, Retention(1, 1)).expired == int(not left)


# --- scrubbing ---


def damage(sessions: Sessions, folder: Path, sha256: str) -> Callable[[], None]:
    """Flip one bit of the stored bytes; what is returned flips it back."""

    def flip() -> None:
        for path in folder.glob(f"*/*/{sha256}-*"):
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
        flipped = (
            "UPDATE artifact_chunks SET content = set_byte(content, 0, get_byte(content, 0) # 1) "
            "WHERE sha256 = :sha256 AND number = 0"
        )
        with sessions.begin() as session:
            session.execute(text(flipped), {"sha256": sha256})

    flip()
    return flip


def test_a_flipped_bit_is_found_and_the_others_are_served(known: Sessions, folder: Path) -> None:
    good, bad = write(known, CONTENT), write(known, CONTENT[1:])
    mend = damage(known, folder, bad)
    found = scrub(known)
    assert (found.checked, found.quarantined) == (2, (bad,))
    assert read(known, good) == CONTENT
    with pytest.raises(ArtifactGone, match=r"quarantined: .* have another SHA-256"):
        read(known, bad)
    mend()
    assert scrub(known, every=timedelta(0)).checked == 1, "what is in quarantine is not read again"
    assert scrub(known).repaired == 1, "but when everything is"
    assert read(known, bad) == CONTENT[1:]


def test_bytes_that_are_not_there_are_found(known: Sessions, folder: Path) -> None:
    sha256 = write(known, CONTENT)
    for path in folder.glob("*/*/*"):
        path.write_bytes(CONTENT[: 2 * CHUNK_BYTES])
    with known.begin() as session:
        session.execute(text("DELETE FROM artifact_chunks WHERE number >= 2"))
    assert scrub(known).quarantined == (sha256,)
    with pytest.raises(ArtifactGone, match=f"only {2 * CHUNK_BYTES} of its {len(CONTENT)} bytes"):
        read(known, sha256)


def test_each_is_read_once_in_the_time_given(known: Sessions) -> None:
    write(known, b"first")
    assert scrub(known, every=timedelta(days=30)).checked == 0
    set_back(known, created_at=long_ago(31 * 24))
    write(known, b"second")
    assert scrub(known, every=timedelta(days=30)).checked == 1
    assert scrub(known, every=timedelta(days=30)).checked == 0


def test_a_round_reads_no_more_than_its_share_and_the_next_goes_on(known: Sessions) -> None:
    for number in range(4):
        write(known, b"%d" % number * 10)
    set_back(known, created_at=long_ago(31 * 24))
    shares = [scrub(known, timedelta(days=30), most_bytes=15).checked for _ in range(3)]
    assert shares == [2, 2, 0]


def test_a_store_that_is_away_damages_nothing(
    in_store: Callable[[StoreName], Sessions], directory: Fragile
) -> None:
    known = in_store("directory")
    sha256 = write(known, b"content")
    directory.is_away = True
    assert scrub(known).checked == 0
    directory.is_away = False
    assert read(known, sha256) == b"content"


# --- moving ---


@pytest.mark.parametrize(("old", "new"), [("postgres", "directory"), ("directory", "postgres")])
def test_artifacts_move_while_they_are_read(
    in_store: Callable[[StoreName], Sessions], folder: Path, old: StoreName, new: StoreName
) -> None:
    known = in_store(old)
    contents = {write(known, CONTENT[start:]): CONTENT[start:] for start in range(4)}
    slow = {sha256: streamed(known, sha256) for sha256 in contents}
    begun = {sha256: next(reader) for sha256, reader in slow.items()}
    ended, faults = threading.Event(), list[str]()

    def read_all() -> int:
        count = 0
        while not ended.is_set() or count < 2:
            for sha256, content in contents.items():
                if read(known, sha256) != content:
                    faults.append(sha256)
            count += 1
        return count

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read_all) for _ in range(2)]
        try:
            moved = move_artifacts(known, new)
        finally:
            ended.set()
        assert all(reader.result() for reader in readers)
    assert (moved.count, moved.size, moved.skipped) == (4, sum(map(len, contents.values())), 0)
    assert faults == []
    for sha256, reader in slow.items():
        assert begun[sha256] + b"".join(reader) == contents[sha256], "a reader in the midst of it"
    with known() as session:
        assert [share.store for share in status(session).shares] == [new]
        chunks = session.scalar(text("SELECT count(*) FROM artifact_chunks"))
    assert (chunks == 0, bool(list(folder.glob("*/*/*")))) == ((new == "directory"),) * 2


def test_only_large_artifacts_move_if_that_is_wanted(
    in_store: Callable[[StoreName], Sessions],
) -> None:
    known = in_store("postgres")
    write(known, b"small")
    large = write(known, CONTENT)
    assert move_artifacts(known, "directory", at_least=6).count == 1
    with known() as session:
        assert ArtifactStore(session).locate(large).place.store == "directory"


def test_damaged_bytes_are_not_moved(
    in_store: Callable[[StoreName], Sessions], folder: Path
) -> None:
    known = in_store("postgres")
    sha256 = write(known, CONTENT)
    damage(known, folder, sha256)
    assert move_artifacts(known, "directory").skipped == 1
    with known() as session:
        assert ArtifactStore(session).locate(sha256).place.store == "postgres"
    assert not list(folder.glob("*/*/*"))


# --- telling ---


def test_the_status_counts_by_store_and_state(known: Sessions, folder: Path) -> None:
    bad = write(known, CONTENT)
    a_job_with_file(known, b"used", 0)
    damage(known, folder, bad)
    scrub(known)
    with known() as session:
        found = status(session)
        stores = set(session.scalars(select(Artifact.store)))
    assert {(one.state, one.artifacts, one.bytes) for one in found.shares} == {
        ("quarantined", 1, len(CONTENT)),
        ("ready", 1, 4),
    }
    assert {one.store for one in found.shares} == stores
    assert (found.unreferenced, found.unreferenced_bytes) == (1, len(CONTENT))


# --- a worker whose artifacts lie in a directory ---


def test_the_state_that_another_takes_the_place_of_leaves_no_file(
    in_store: Callable[[StoreName], Sessions], folder: Path
) -> None:
    known = in_store("directory")
    ledger = a_made_up_ledger(known)
    with known.begin() as session:
        a_job(session)
    claim, path = a_claim(ledger), Path("state")
    for step in (1, 2):
        sha256 = ledger.put_artifact(claim, [b"state %d" % step]).sha256
        ledger.record(claim, [TrainingSaved(step=step, path=path)], {path: sha256})
        assert [file.name[:64] for file in folder.glob("*/*/*")] == [sha256]
    ledger.release(claim, "preempted")
    assert b"".join(ledger.fetch_artifact(claim, sha256)) == b"state 2"
    ledger.finish(a_claim(ledger))
    assert list(folder.glob("*/*/*")) == []


def test_a_worker_tries_again_when_the_store_is_away(
    in_store: Callable[[StoreName], Sessions], directory: Fragile
) -> None:
    known = in_store("directory")
    sha256 = write(known, b"content")
    directory.is_away = True
    with pytest.raises(LedgerUnreachable, match="it is away"):
        next(a_made_up_ledger(known).fetch_artifact(Lease(uuid4(), 1, uuid4(), 30), sha256))


# --- crashes ---

WRITER = """
import random, sys
from pathlib import Path
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.session import session_factory
from adaptlab_db.stores.directory import DirectoryStore
from adaptlab_db.stores.postgres import PostgresStore
from adaptlab_db.stores.store import Stores

known = {"postgres": PostgresStore(), "directory": DirectoryStore(Path(sys.argv[3]))}
sessions = session_factory(sys.argv[1], Stores(known, sys.argv[2]))
while True:
    with sessions.begin() as session:
        ArtifactStore(session).write([random.randbytes(2**20) for _ in range(3)])
    print("written", flush=True)
"""


@pytest.mark.long("chaos at length")
@pytest.mark.parametrize("name", ["postgres", "directory"])
def test_a_writer_that_is_killed_leaves_nothing_damaged(
    in_store: Callable[[StoreName], Sessions],
    sessions: Sessions,
    database_url: str,
    folder: Path,
    name: StoreName,
) -> None:
    known = in_store(name)
    moments = random.Random(name)
    for _ in range(3):
        argv = [sys.executable, "-c", WRITER, database_url, name, str(folder)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"written\n"
            time.sleep(moments.uniform(0.1, 0.3))  # the moment of the kill, not a wait for anything
            writer.kill()
    # What the database was doing for the last of them may still be committed.
    until(lambda: nobody_works(sessions), "an end of what the killed one asked for")
    found = scrub(known)
    assert found.checked > 0
    assert found.quarantined == ()
    collect(known, strays_after=timedelta(seconds=-1))
    with known() as session:
        keys = set(session.scalars(select(Artifact.key).where(Artifact.key.is_not(None))))
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left - {MARKER} == keys
