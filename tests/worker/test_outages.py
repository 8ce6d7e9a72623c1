"""Outages of the ledger: short ones cost nothing; never two writers."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    MadeUpLedger,
    a_base_model,
    a_job,
    a_pretrain_spec,
    a_principal,
    a_worker,
    an_adapt_spec,
)
from tests.standstills import Watch
from tests.worker.conftest import (
    PATIENCE,
    ROOT,
    Control,
    Processes,
    Watched,
    wait_for_threads,
    wait_until,
)

from adaptlab.runs.events import Event, MetricPoint, Metrics, Progress, TrainingSaved
from adaptlab_db import tables
from adaptlab_services.errors import LeaseLost, LedgerUnreachable
from adaptlab_services.jobs import jobs
from adaptlab_services.leases.leases import NO_ARTIFACTS, Command, DatabaseLedger
from adaptlab_services.leases.reaping import reap
from adaptlab_services.lifecycle.held_leases import Claim, Lease
from adaptlab_worker.attempt.attempt import Attempt
from adaptlab_worker.attempt.recorder import MOST_WAITING, Recorder, without_overtaken
from adaptlab_worker.attempt.waiting_limits import Patience
from adaptlab_worker.trainer.protocol import Ended
from adaptlab_worker.trainer.scratch import AssetCache
from adaptlab_worker.trainer.trainer_process import TrainerOptions, TrainerProcess

LEASE_SECONDS = 3.0
STRICT_SECONDS = 8.0
DEFAULT = Patience()


class Unsteady(DatabaseLedger):
    """The real ledger behind a line that can be cut."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        super().__init__(sessions, LEASE_SECONDS)
        self.cut = threading.Event()
        self.is_full = threading.Event()
        self.refused = 0
        self.reached_at = 0.0

    def heartbeat(self, lease: Lease, step: int, phase: Progress | None = None) -> Command:
        self._check()
        sent_at = time.monotonic()
        command = super().heartbeat(lease, step, phase)
        self.reached_at = sent_at
        return command

    def record(
        self, lease: Lease, events: Sequence[Event], artifacts: Mapping[Path, str] = NO_ARTIFACTS
    ) -> None:
        self._check()
        if self.is_full.is_set():
            self.refused += 1
            raise LedgerUnreachable("the store takes no more")
        super().record(lease, events, artifacts)

    def fetch_artifact(self, lease: Lease, sha256: str) -> Iterator[bytes]:
        self._check()
        yield from super().fetch_artifact(lease, sha256)

    def finish(self, lease: Lease) -> tuple[str, ...]:
        self._check()
        return super().finish(lease)

    def fail(self, lease: Lease, reason: Any, error: str, *, retry: bool) -> tuple[str, ...]:
        self._check()
        return super().fail(lease, reason, error, retry=retry)

    def _check(self) -> None:
        if self.cut.is_set():
            self.refused += 1
            raise LedgerUnreachable("the line is cut")


class Credulous(Unsteady, MadeUpLedger):
    """Such a line to a ledger that takes more than a run of the job reports."""


@pytest.fixture
def ledger(sessions: sessionmaker[Session]) -> Unsteady:
    return Unsteady(sessions)


@pytest.fixture
def credulous(sessions: sessionmaker[Session]) -> Credulous:
    return Credulous(sessions)


@pytest.fixture
def trainer(control: Control, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainerProcess]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RUNNER_CONTROL", str(control.folder))
    started = TrainerProcess(
        TrainerOptions(runner="tests.worker.runners:held", passed_on=("RUNNER_CONTROL",))
    )
    try:
        assert started.await_ready(lambda: False)
        yield started
    finally:
        started.close()


@pytest.fixture
def claim(ledger: Unsteady, sessions: sessionmaker[Session]) -> Claim:
    with sessions.begin() as session:
        a_job(session, a_pretrain_spec(seeds=1))
    taken = ledger.claim(a_worker(ledger), ("cpu",))
    assert taken is not None
    return taken


class Running:
    """An attempt that is carried out in a thread."""

    def __init__(
        self,
        ledger: Unsteady,
        claim: Claim,
        trainer: TrainerProcess,
        folder: Path,
        patience: Patience = DEFAULT,
    ):
        self.ended: Ended | None = None
        self.rung: list[Sequence[str]] = []
        self.claimed_at = time.monotonic()
        attempt = Attempt(
            ledger,
            claim,
            self.claimed_at,
            0.2,
            30.0,
            is_draining=lambda: False,
            ring=self.rung.append,
            patience=patience,
        )
        scratch = folder / "attempt"
        scratch.mkdir()
        cache = AssetCache(folder / "weights")

        def carry_out() -> None:
            self.ended = attempt.carry_out(trainer, cache, scratch)

        self._thread = threading.Thread(target=carry_out)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        wait_for_threads()


def lease_has_ended(sessions: sessionmaker[Session], claim: Claim) -> bool:
    with sessions.begin() as session:
        ended = tables.Job.lease_expires_at < func.clock_timestamp()
        return session.scalars(select(ended).where(tables.Job.id == claim.job_id)).one()


def points(sessions: sessionmaker[Session], claim: Claim) -> list[int]:
    with sessions.begin() as session:
        of_job = select(tables.MetricPointRow.step).where(
            tables.MetricPointRow.job_id == claim.job_id
        )
        return list(session.scalars(of_job.order_by(tables.MetricPointRow.step)))


def test_a_short_outage_costs_nothing(
    ledger: Unsteady,
    claim: Claim,
    trainer: TrainerProcess,
    control: Control,
    sessions: sessionmaker[Session],
    watched: Watched,
    tmp_path: Path,
) -> None:
    running = Running(ledger, claim, trainer, tmp_path)
    watched.wait_for_step(claim.job_id)
    ledger.cut.set()
    control.allow()  # the run ends while nothing can be written
    wait_until(lambda: ledger.refused >= 3, "refused writes")
    ledger.cut.clear()
    running.wait()
    assert watched.job(claim.job_id).state == "succeeded"
    assert points(sessions, claim) == [1, 2, 3, 4]


@pytest.mark.long("chaos at length")
def test_an_outage_while_a_run_begins_costs_no_attempt(
    ledger: Unsteady,
    trainer: TrainerProcess,
    control: Control,
    sessions: sessionmaker[Session],
    watched: Watched,
    tmp_path: Path,
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session, an_adapt_spec(seeds=1))
    claim = ledger.claim(a_worker(ledger), ("cpu",))
    assert claim is not None
    ledger.cut.set()
    control.allow()
    running = Running(ledger, claim, trainer, tmp_path)
    wait_until(lambda: lease_has_ended(sessions, claim), "the end of the lease")
    ledger.cut.clear()
    running.wait()
    job = watched.job(claim.job_id)
    assert (job.state, job.attempt) == ("succeeded", 1)


def test_an_outage_longer_than_the_lease_is_waited_through(
    ledger: Unsteady,
    claim: Claim,
    trainer: TrainerProcess,
    control: Control,
    sessions: sessionmaker[Session],
    watched: Watched,
    tmp_path: Path,
) -> None:
    running = Running(ledger, claim, trainer, tmp_path)
    watched.wait_for_step(claim.job_id)
    ledger.cut.set()
    wait_until(lambda: lease_has_ended(sessions, claim), "the end of the lease")
    control.allow()
    wait_until(lambda: (control.folder / "done").exists(), "the end of the run")
    assert running.ended is None  # nobody could be told yet
    ledger.cut.clear()
    running.wait()
    assert watched.job(claim.job_id).state == "succeeded"
    assert points(sessions, claim) == [1, 2, 3, 4]


def test_an_outage_is_not_waited_through_for_ever(
    ledger: Unsteady,
    claim: Claim,
    trainer: TrainerProcess,
    watched: Watched,
    tmp_path: Path,
) -> None:
    patience = Patience(ride_through_seconds=LEASE_SECONDS)
    running = Running(ledger, claim, trainer, tmp_path, patience)
    watched.wait_for_step(claim.job_id)
    wait_until(lambda: ledger.reached_at > 0, "a renewal")
    ledger.cut.set()
    running.wait()
    assert LEASE_SECONDS < time.monotonic() - ledger.reached_at < PATIENCE
    assert running.ended is not None
    assert running.ended.outcome == "stopped"


def test_the_job_of_a_run_that_was_cut_off_is_done_by_another_and_it_stops_when_it_hears_so(
    ledger: Unsteady,
    claim: Claim,
    trainer: TrainerProcess,
    sessions: sessionmaker[Session],
    watched: Watched,
    tmp_path: Path,
) -> None:
    running = Running(ledger, claim, trainer, tmp_path)
    watched.wait_for_step(claim.job_id)
    ledger.cut.set()
    wait_until(lambda: lease_has_ended(sessions, claim), "the end of the lease")
    with sessions.begin() as session:
        assert reap(session).count == 1
    before = watched.job(claim.job_id).event_sequence
    ledger.cut.clear()
    running.wait()
    assert watched.job(claim.job_id).event_sequence == before


def test_a_strict_run_is_stopped_before_the_lease_ends_that_could_not_be_renewed(
    ledger: Unsteady,
    claim: Claim,
    trainer: TrainerProcess,
    watched: Watched,
    tmp_path: Path,
) -> None:
    strict = replace(claim, strict=True, lease_seconds=STRICT_SECONDS)
    running = Running(ledger, strict, trainer, tmp_path)
    watched.wait_for_step(claim.job_id)
    wait_until(lambda: ledger.reached_at > 0, "a renewal")
    with Watch() as watch:
        ledger.cut.set()
        running.wait()
    took = time.monotonic() - ledger.reached_at
    assert took > STRICT_SECONDS / 2, "at the end of the lease, and not when the line was cut"
    assert took - watch.lost < STRICT_SECONDS, "not after it"
    assert running.ended is not None
    assert running.ended.outcome == "stopped"
    assert watched.job(claim.job_id).state == "running"  # for the reaper to take back


def test_a_lease_that_was_taken_away_stops_the_run_and_nothing_is_written(
    ledger: Unsteady,
    claim: Claim,
    trainer: TrainerProcess,
    sessions: sessionmaker[Session],
    watched: Watched,
    tmp_path: Path,
) -> None:
    running = Running(ledger, claim, trainer, tmp_path)
    watched.wait_for_step(claim.job_id)
    with sessions.begin() as session:
        job = session.get_one(tables.Job, claim.job_id)
        job.lease_expires_at = func.clock_timestamp()
        session.flush()
        assert reap(session).count == 1
    before = watched.job(claim.job_id).event_sequence
    running.wait()
    job = watched.job(claim.job_id)
    assert (job.state, job.event_sequence) == ("queued", before)
    assert trainer.is_alive  # it listened, and is warm for the next job
    with pytest.raises(LeaseLost):
        ledger.record(claim, [Progress(phase="training", step=9, total=9)])


def test_a_recorder_writes_each_event_once_and_in_time(
    credulous: Credulous, claim: Claim, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    credulous.cut.set()
    recorder = Recorder(credulous, claim, tmp_path)
    recorder.start()
    for step in range(1, 1201):
        point = MetricPoint(replicate=0, name="loss", step=step, value=1.0)
        recorder.put(Metrics(points=(point,)))
    wait_until(lambda: credulous.refused >= 2, "refused writes")
    credulous.cut.clear()
    recorder.close()
    assert recorder.join(PATIENCE)
    assert points(sessions, claim) == list(range(1, 1201))
    assert (recorder.is_lost, recorder.failure) == (False, None)


def test_a_recorder_keeps_on_disk_what_memory_should_not_hold(
    credulous: Credulous, claim: Claim, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    credulous.cut.set()
    recorder = Recorder(credulous, claim, tmp_path)
    recorder.start()
    steps = range(1, 3 * MOST_WAITING + 1)
    for start in range(1, len(steps), 100):
        several = tuple(
            MetricPoint(replicate=0, name="loss", step=step, value=1.0)
            for step in range(start, start + 100)
        )
        recorder.put(Metrics(points=several))
        assert not recorder.is_behind, "the run goes on"
    assert (tmp_path / "spool.jsonl").stat().st_size > 0
    credulous.cut.clear()
    recorder.close()
    assert recorder.join(PATIENCE)
    assert points(sessions, claim) == list(steps)


def test_results_that_the_disk_does_not_give_back_are_no_success(
    credulous: Credulous, claim: Claim, tmp_path: Path
) -> None:
    credulous.cut.set()
    recorder = Recorder(credulous, claim, tmp_path)
    recorder.start()
    spool = tmp_path / "spool.jsonl"
    for step in range(1, 2 * MOST_WAITING):
        point = MetricPoint(replicate=0, name="loss", step=step, value=1.0)
        recorder.put(Metrics(points=(point,)))
    wait_until(spool.exists, "events on the disk")
    spool.unlink()
    credulous.cut.clear()
    recorder.close()
    assert recorder.join(PATIENCE)
    assert recorder.failure is not None
    assert "FileNotFoundError" in recorder.failure


@pytest.mark.long("chaos at length")
def test_a_run_is_cancelled_though_its_results_cannot_be_stored(
    ledger: Unsteady,
    claim: Claim,
    trainer: TrainerProcess,
    sessions: sessionmaker[Session],
    watched: Watched,
    tmp_path: Path,
) -> None:
    ledger.is_full.set()
    running = Running(ledger, claim, trainer, tmp_path)
    wait_until(lambda: ledger.refused >= 1, "a refused write")
    with sessions.begin() as session:
        jobs.cancel(session, a_principal(session), claim.job_id)
    running.wait()
    assert watched.job(claim.job_id).state == "cancelled"


def test_a_run_does_not_go_on_from_other_bytes_than_were_saved(
    ledger: Unsteady,
    claim: Claim,
    trainer: TrainerProcess,
    control: Control,
    sessions: sessionmaker[Session],
    watched: Watched,
    tmp_path: Path,
) -> None:
    path = Path("training-1.safetensors")
    sha256 = ledger.put_artifact(claim, [b"one"]).sha256
    ledger.record(claim, [TrainingSaved(step=1, path=path)], {path: sha256})
    ledger.release(claim, "preempted")
    with sessions.begin() as session:
        session.execute(update(tables.ArtifactChunk).values(content=b"two"))
    again = ledger.claim(a_worker(ledger), ("cpu",))
    assert again is not None
    control.allow()
    Running(ledger, again, trainer, tmp_path).wait()
    job = watched.job(claim.job_id)
    assert job.state == "queued"
    assert sha256 in str(job.error)


def test_steps_alone_are_left_to_the_heartbeat(
    credulous: Credulous, claim: Claim, watched: Watched, tmp_path: Path
) -> None:
    credulous.cut.set()
    recorder = Recorder(credulous, claim, tmp_path)
    recorder.start()
    recorder.put(Progress(phase="training", step=1, total=9 * MOST_WAITING))
    wait_until(lambda: credulous.refused >= 1, "the first step, which is reported at once")
    for step in range(2, 3 * MOST_WAITING):
        recorder.put(Progress(phase="training", step=step, total=9 * MOST_WAITING))
    assert not (tmp_path / "spool.jsonl").exists(), "one of them waits, however many there were"
    credulous.cut.clear()
    recorder.close()
    assert recorder.join(PATIENCE)
    assert watched.job(claim.job_id).step == 3 * MOST_WAITING - 1


def test_of_the_states_that_wait_only_the_last_is_kept(
    ledger: Unsteady, claim: Claim, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    ledger.cut.set()
    recorder = Recorder(ledger, claim, tmp_path)
    recorder.start()
    recorder.put(Progress(phase="training", step=1, total=9))
    wait_until(lambda: ledger.refused >= 1, "a batch that cannot be written")
    for step in (2, 3, 4):
        path = tmp_path / f"training-{step}.safetensors"
        path.write_bytes(b"after %d" % step)
        recorder.put(TrainingSaved(step=step, path=path))
    assert [path.name for path in tmp_path.glob("training-*")] == ["training-4.safetensors"]
    ledger.cut.clear()
    recorder.close()
    assert recorder.join(PATIENCE)
    with sessions.begin() as session:
        assert list(session.scalars(select(tables.TrainingStateRow.step))) == [4]


def test_a_recorder_without_a_lease_drops_what_it_has(
    ledger: Unsteady, claim: Claim, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    ledger.release(claim, "preempted")
    recorder = Recorder(ledger, claim, tmp_path)
    recorder.start()
    recorder.put(Progress(phase="training", step=1, total=2))
    recorder.close()
    assert recorder.join(PATIENCE)
    assert recorder.is_lost


def test_only_the_last_progress_of_a_phase_is_kept() -> None:
    def at(step: int) -> Progress:
        return Progress(phase="training", step=step, total=9)

    metrics = Metrics(points=())
    evaluating = Progress(phase="evaluating", step=9, total=9)
    assert without_overtaken([at(1), metrics, at(2), evaluating]) == [
        metrics,
        at(2),
        evaluating,
    ]


def test_a_worker_whose_trainer_does_not_start_costs_no_job_an_attempt(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched
) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, a_pretrain_spec(seeds=1))
    processes.worker("there_is_no_such_runner")
    wait_until(
        lambda: processes.log.exists() and processes.log.read_text().count("did not start") >= 2,
        "two starts that failed",
    )
    job = watched.job(job_id)
    assert (job.state, job.attempt) == ("queued", 0)
