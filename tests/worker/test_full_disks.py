"""A full disk: jobs are left to other workers, and are not blamed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec
from tests.worker.conftest import (
    Control,
    Processes,
    Watched,
    runner_options,
    serving,
    wait_until,
)

from adaptlab.errors import is_disk_full
from adaptlab_answers.server import STARTING
from adaptlab_db.tables import AttemptRow, Worker
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle import workers
from adaptlab_worker.attempt.disk_space import LEAST_SHARE, MOST_ASKED, Room

Sessions = sessionmaker[Session]
TOTAL = 1000 * 2**20  # bytes


class Disk:
    """A disk of which a test says how much is free."""

    def __init__(self, free: int = TOTAL) -> None:
        self.free = free

    def __call__(self, folder: Path) -> tuple[int, int, int]:
        return TOTAL, TOTAL - self.free, self.free


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def slot(
    ledger: DatabaseLedger,
    disk: Disk,
    control: Control,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """A slot on that disk, whose trainer's runner is the fixture's parameter."""
    options = runner_options(monkeypatch, control, request.param)
    with serving(ledger, options, tmp_path, disk):
        yield


def submit(sessions: Sessions, **columns: Any) -> UUID:
    with sessions.begin() as session:
        return a_job(session, a_pretrain_spec(seeds=1), **columns)


def attempts(sessions: Sessions) -> list[tuple[str | None, str | None]]:
    with sessions.begin() as session:
        rows = session.execute(
            select(AttemptRow.outcome, AttemptRow.reason).order_by(AttemptRow.attempt)
        )
        return [(row.outcome, row.reason) for row in rows]


def unschedulable(sessions: Sessions) -> str | None:
    with sessions.begin() as session:
        return session.scalars(select(Worker.unschedulable)).one_or_none()


# --- before a job is taken ------------------------------------------------------------------------


def test_a_worker_whose_disk_is_full_takes_no_jobs_and_says_why(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    job_id = submit(sessions)
    processes.worker(ADAPTLAB_SCRATCH_FREE_BYTES=str(2**60), ADAPTLAB_POLL_SECONDS="0.1")
    wait_until(lambda: unschedulable(sessions) not in (None, STARTING), "a word about the disk")
    with sessions.begin() as session:
        (worker,) = workers.recent(session)
        assert worker.live
        assert "MiB free" in str(worker.unschedulable)
        assert workers.live_queues(session) == (), "submitters are warned"
    said = processes.log.read_text
    seen = watched.heard_of()
    wait_until(lambda: watched.heard_of() > seen, "another look")
    assert said().count("takes no jobs") == 1, "said once, not at each look"
    job = watched.job(job_id)
    assert (job.state, job.attempt) == ("queued", 0)


@pytest.mark.parametrize("slot", ["complete"], indirect=True)
def test_it_takes_jobs_again_by_itself_when_there_is_room(
    slot: None, disk: Disk, sessions: Sessions, watched: Watched
) -> None:
    watched.wait_for_state(submit(sessions), "succeeded")
    disk.free = int(LEAST_SHARE * TOTAL) - 1
    wait_until(lambda: unschedulable(sessions) is not None, "a word about the disk")
    job_id = submit(sessions)
    seen = watched.heard_of()
    wait_until(lambda: watched.heard_of() > seen, "another look")
    assert watched.job(job_id).state == "queued"
    disk.free += 1
    watched.wait_for_state(job_id, "succeeded")
    assert unschedulable(sessions) is None


# --- while a job runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("slot", ["full"], indirect=True)
def test_a_run_that_met_with_a_full_disk_does_not_count_and_its_worker_takes_no_more(
    slot: None, disk: Disk, control: Control, sessions: Sessions, watched: Watched
) -> None:
    job_id = submit(sessions, attempts_max=1)
    watched.wait_for_step(job_id)
    disk.free = 0
    control.allow()
    job = watched.wait_for_state(job_id, "queued", "failed")
    assert (job.state, job.reason, job.attempts_max) == ("queued", "disk_full", 2)
    assert "No space left on device" in str(job.error)
    assert attempts(sessions) == [("released", "disk_full")]
    wait_until(lambda: unschedulable(sessions) is not None, "a word about the disk")
    assert watched.job(job_id).attempt == 1, "or it would go on for ever"


@pytest.mark.parametrize("slot", ["full"], indirect=True)
def test_a_run_that_is_too_large_for_a_disk_with_room_counts(
    slot: None, control: Control, sessions: Sessions, watched: Watched
) -> None:
    control.allow()
    job_id = submit(sessions, attempts_max=2)
    job = watched.wait_for_state(job_id, "failed")
    assert (job.reason, job.attempt) == ("disk_full", 2)
    assert attempts(sessions) == [("failed", "disk_full")] * 2


# --- what counts as full --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "least"), [(2**30, LEAST_SHARE * 2**30), (2**40, MOST_ASKED), (2**20, 2**20 / 20)]
)
def test_a_twentieth_of_the_disk_must_be_free_but_no_more_than_a_gigabyte(
    tmp_path: Path, total: int, least: float
) -> None:
    def room(free: float) -> Room:
        return Room(tmp_path, measure=lambda _: (total, 0, int(free)))

    assert room(least + 1).shortage() is None
    assert "ADAPTLAB_SCRATCH_FREE_BYTES" in str(room(least - 2).shortage())


def test_what_a_run_holds_is_not_missing_once_it_is_gone(tmp_path: Path, disk: Disk) -> None:
    run, room = tmp_path / "run", Room(tmp_path, least=2**20, measure=disk)
    run.mkdir()
    disk.free = 2**20 - 2**18
    cached = tmp_path / "weights"
    cached.write_bytes(bytes(2**20))
    (run / "base").hardlink_to(cached)  # stays in the cache
    assert room.shortage(run) is not None
    (run / "state").write_bytes(bytes(2**18))
    assert room.shortage() is not None
    assert room.shortage(run) is None


def test_a_folder_that_takes_no_files_is_as_good_as_full(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert "cannot write to its disk" in str(Room(gone, least=0).shortage())


def refused(write: Callable[[], object]) -> Exception:
    try:
        write()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("it was not refused")


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (refused(lambda: Path("/dev/full").write_bytes(b"x")), True),
        # As safetensors 0.8 put it on a full disk.
        (Exception("Error while serializing: I/O error: No space left (os error 28)"), True),
        (Exception("Error while serializing: I/O error: Permission denied (os error 13)"), False),
        (OSError(13, "Permission denied"), False),
        (ValueError("28"), False),
    ],
)
def test_a_full_disk_is_known_by_its_number(error: Exception, is_full: bool) -> None:
    assert is_disk_full(error) is is_full
