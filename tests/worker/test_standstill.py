"""Standstills: a stuck run, a silent worker, an unreachable database."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from sqlalchemy import func, make_url, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec, a_resolved_spec
from tests.outages import outage
from tests.worker.conftest import (
    PATIENCE,
    ROOT,
    Control,
    Processes,
    Watched,
    is_running,
    wait_until,
)

from adaptlab.runs.events import Metrics, Progress
from adaptlab_db.tables import AttemptRow, Job
from adaptlab_stack.servers import Servers
from adaptlab_worker.attempt.spool import Spool
from adaptlab_worker.attempt.waiting_limits import Patience, StallTimer
from adaptlab_worker.trainer.protocol import (
    Ended,
    LeaseKept,
    MessageReader,
    Ready,
    RunRequest,
    StillHere,
    frame_of,
)
from adaptlab_worker.trainer.trainer_process import TrainerOptions, TrainerProcess

Sessions = sessionmaker[Session]
QUICK = {"ADAPTLAB_LEASE_SECONDS": "3", "ADAPTLAB_HEARTBEAT_SECONDS": "0.3"}


def submit(sessions: Sessions, self_fence: str = "ride_through", **columns: Any) -> Any:
    with sessions.begin() as session:
        spec = a_pretrain_spec(seeds=1, resources={"self_fence": self_fence})
        return a_job(session, spec, **columns)


def outcomes(sessions: Sessions) -> list[tuple[str | None, str | None]]:
    with sessions.begin() as session:
        rows = session.execute(
            select(AttemptRow.outcome, AttemptRow.reason).order_by(AttemptRow.attempt)
        )
        return [(row.outcome, row.reason) for row in rows]


# --- a run that got stuck -------------------------------------------------------------------------


def test_a_run_that_got_stuck_is_ended_and_tried_again(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    job_id = submit(sessions, attempts_max=2)
    # Less, and a busy machine would not let it take its first step.
    processes.worker("hung", ADAPTLAB_STALL_SECONDS="3")
    job = watched.wait_for_state(job_id, "failed")
    assert outcomes(sessions) == [("failed", "stalled")] * 2
    assert "after step 1" in str(job.error)
    assert "ADAPTLAB_STALL_SECONDS" in str(job.error)


@pytest.mark.long("ablation of a defence")
def test_without_the_timer_it_would_be_kept_as_long_as_it_lives(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    job_id = submit(sessions, max_seconds=3)
    processes.worker("hung")
    assert watched.wait_for_state(job_id, "failed").reason == "timeout"


def a_step(step: int) -> Progress:
    return Progress(phase="training", step=step, total=1000)


def test_a_run_of_slow_steps_is_given_twenty_of_them() -> None:
    timer = StallTimer(Patience(stall_seconds=600, stall_steps=20), now=0)
    for number in range(1, 10):
        timer.heard(a_step(2 * number), now=200.0 * number)  # 100 s a step
    timer.heard(a_step(19), now=200.0 * 9 + 1)  # one that was quick
    assert timer.limit == pytest.approx(20 * 100)
    assert not timer.is_over(1801 + 1999)
    assert timer.is_over(1801 + 2001)


def test_a_run_of_quick_steps_is_given_ten_minutes_from_its_last_word() -> None:
    timer = StallTimer(Patience(), now=0)
    assert not timer.is_over(599)
    assert timer.is_over(601), "one that never said anything"
    for step in range(1, 50):
        timer.heard(a_step(step), now=step)
    timer.heard(Metrics(points=()), now=100)
    assert (timer.is_over(699), timer.is_over(701)) == (False, True)
    timer.hold(now=5000)  # nobody listened until then
    assert not timer.is_over(5599)


# --- a worker that fell silent --------------------------------------------------------------------


@contextmanager
def a_trainer(
    control: Control, silence: float, runner: str = "held"
) -> Iterator[tuple[Any, "Connection[Any, Any]"]]:
    """A trainer that is ready, to which nobody says anything by itself."""
    with spoken_to(control, silence, runner) as (process, pipe, silent):
        silent.set()
        yield process, pipe


@contextmanager
def spoken_to(
    control: Control, silence: float, runner: str = "held"
) -> Iterator[tuple[Any, "Connection[Any, Any]", threading.Event]]:
    """A ready trainer, whose worker is alive until the event is set."""
    ours, theirs = Pipe(duplex=True)
    silent = threading.Event()

    def speak() -> None:
        with suppress(OSError):
            while not silent.wait(0.05):
                ours.send_bytes(frame_of(StillHere()))

    speaking = threading.Thread(target=speak)
    module = ["-m", "adaptlab_worker.trainer.trainer", str(theirs.fileno()), str(os.getpid())]
    process = subprocess.Popen(
        [sys.executable, *module, str(silence), f"tests.worker.runners:{runner}"],
        pass_fds=(theirs.fileno(),),
        env=os.environ | {"PYTHONPATH": str(ROOT), "RUNNER_CONTROL": str(control.folder)},
    )
    theirs.close()
    speaking.start()
    try:
        assert ours.poll(PATIENCE)
        assert isinstance(MessageReader().read(ours.recv_bytes()), Ready)
        yield process, ours, silent
    finally:
        process.kill()
        process.wait()
        silent.set()
        speaking.join()
        ours.close()


def test_a_trainer_ends_by_itself_when_its_worker_falls_silent(control: Control) -> None:
    with spoken_to(control, silence=3) as (process, _, silent):
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(4)
        silent.set()
        assert process.wait(PATIENCE) == 0  # though the pipe is open, and its parent lives


@pytest.mark.long("ablation of a defence")
def test_a_trainer_that_waits_for_no_word_would_go_on(control: Control) -> None:
    with a_trainer(control, silence=3600) as (process, _), pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)


@pytest.mark.long("chaos at length")
def test_a_worker_that_lives_says_so_even_when_it_has_nothing_to_do(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RUNNER_CONTROL", str(control.folder))
    options = TrainerOptions(
        runner="tests.worker.runners:held", silence_seconds=3, passed_on=("RUNNER_CONTROL",)
    )
    trainer = TrainerProcess(options)
    try:
        assert trainer.await_ready(lambda: False)
        with pytest.raises(psutil.TimeoutExpired):
            psutil.Process(trainer.pid).wait(4)
    finally:
        trainer.close()


@pytest.mark.long("chaos at length", but=1)
@pytest.mark.parametrize(("self_fence", "outlives"), [("strict", False), ("ride_through", True)])
def test_the_trainer_of_a_frozen_worker_ends_before_the_lease_if_the_run_is_strict(
    processes: Processes,
    sessions: Sessions,
    watched: Watched,
    control: Control,
    self_fence: str,
    outlives: bool,
) -> None:
    job_id = submit(sessions, self_fence)
    # The alarm rings 1.25 s before the end of the lease: time to see that the trainer is gone.
    lease = {} if outlives else {"ADAPTLAB_LEASE_SECONDS": "20"}
    worker = processes.worker("hung", **QUICK | lease)
    watched.wait_for_step(job_id)
    began = watched.job(job_id).lease_expires_at
    watched.wait(job_id, lambda job: job.lease_expires_at != began, "a renewal")
    (trainer,) = control.trainers()
    worker.send_signal(signal.SIGSTOP)
    is_over = False
    while is_running(trainer) and not is_over:
        time.sleep(0.01)  # between two looks; the loop ends by what it waits for
        is_over = watched.lease_is_over(job_id)  # looked at first: what still runs then is too late
        assert not is_over or is_running(trainer) is outlives
    assert is_over is outlives


def test_the_alarm_of_a_strict_run_rings_though_the_interpreter_never_lets_go(
    control: Control,
) -> None:
    """A kernel that holds the interpreter: the trainer's threads wait."""
    with a_trainer(control, silence=30, runner="seized") as (process, pipe):
        pipe.send_bytes(frame_of(a_run(control, until=time.monotonic() + 3)))
        assert process.wait(PATIENCE) == -signal.SIGALRM


@pytest.mark.long("ablation of a defence")
def test_by_its_threads_alone_such_a_trainer_would_go_on(control: Control) -> None:
    with spoken_to(control, silence=2, runner="seized") as (process, pipe, silent):
        pipe.send_bytes(frame_of(a_run(control)))
        control.read("seized")
        silent.set()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(4)


def test_a_word_about_a_run_that_is_over_sets_no_alarm(control: Control) -> None:
    """The trainer stays warm for the next run."""
    with a_trainer(control, silence=30, runner="complete") as (process, pipe):
        pipe.send_bytes(frame_of(a_run(control, until=time.monotonic() + 60)))
        while not isinstance(MessageReader().read(pipe.recv_bytes()), Ended):
            pass
        pipe.send_bytes(frame_of(LeaseKept(run="run", until=time.monotonic() + 0.1)))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)


def a_run(control: Control, until: float | None = None) -> RunRequest:
    return RunRequest(
        run="run",
        resolved=a_resolved_spec(a_pretrain_spec(seeds=1)),
        scratch=control.folder,
        until=until,
    )


# --- a database that is away ----------------------------------------------------------------------


@pytest.mark.long("chaos at length")
@pytest.mark.parametrize(("ride_through", "goes_on"), [("900", True), ("0", False)])
def test_an_outage_longer_than_the_lease_costs_a_running_job_nothing(
    processes: Processes,
    sessions: Sessions,
    watched: Watched,
    control: Control,
    servers: Servers,
    ride_through: str,
    goes_on: bool,
) -> None:
    """The second case has no defence: the run ends, and another begins."""
    job_id = submit(sessions)
    # Whoever goes on is heard of before anything is taken back, however long that takes.
    armed = {"ADAPTLAB_REAPER_ARM_SECONDS": "3600" if goes_on else "1"}
    processes.worker("held", ADAPTLAB_RIDE_THROUGH_SECONDS=ride_through, **QUICK | armed)
    watched.wait_for_step(job_id)
    expires = watched.job(job_id).lease_expires_at
    with outage(servers.database_url, processes.settings.database_url):
        wait_until(lambda: has_passed(servers, expires), "the end of the lease")
        control.allow()
    job = watched.wait_for_state(job_id, "succeeded", "failed")
    assert (job.state, job.attempt == 1) == ("succeeded", goes_on)
    with sessions.begin() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 1


def has_passed(servers: Servers, moment: Any) -> bool:
    """Return True if two seconds have passed on the server's clock."""
    url = make_url(servers.database_url).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        row = connection.execute("SELECT clock_timestamp() > %s + interval '2 s'", (moment,))
        return bool((row.fetchone() or (False,))[0])


def test_a_spool_gives_back_what_it_was_given_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", largest=2000)
    given = [a_step(step) for step in range(1, 41)]
    for event in given[:10]:
        spool.append(event)
    assert spool.take(4) == given[:4]
    for event in given[10:]:
        spool.append(event)
    assert spool.is_full
    assert [*spool.take(6), *spool.take(1000)] == given[4:]
    assert (spool.is_empty, spool.is_full) == (True, False)
    assert (tmp_path / "spool").stat().st_size == 0
    spool.close()


def test_a_spool_whose_disk_is_full_keeps_what_it_has_and_asks_to_wait() -> None:
    """/dev/full refuses every write as a full disk does."""
    spool = Spool(Path("/dev/full"))
    spool.append(a_step(1))
    spool.append(a_step(2))
    assert spool.is_full
    assert spool.take(10) == [a_step(1), a_step(2)]
    assert not spool.is_full
    spool.close()
