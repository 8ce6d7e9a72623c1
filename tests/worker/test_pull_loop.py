"""Workers of batch jobs: no broker, an end, signals and exit codes."""

import os
import signal
import time
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.job_rows import attempts, outcomes
from tests.making import a_job, a_pretrain_spec
from tests.worker.conftest import (
    PATIENCE,
    Control,
    Process,
    Processes,
    Watched,
    is_running,
    wait_until,
)
from typer.testing import CliRunner

from adaptlab_db.tables import JobEvent, Worker
from adaptlab_worker.__main__ import program
from adaptlab_worker.loop.pull_loop import AGAIN_SECONDS

Sessions = sessionmaker[Session]
NOBODY = "redis://127.0.0.1:1/0"  # no broker listens there
SLURM = {"SLURM_JOB_ID": "4711", "SLURM_RESTART_COUNT": "1", "SLURM_JOB_PARTITION": "gpu"}


def submit(sessions: Sessions, **training: int) -> UUID:
    with sessions.begin() as session:
        changes = {"training": training} if training else {}
        return a_job(session, a_pretrain_spec(seeds=1, **changes))


def start(
    processes: Processes, *options: str, runner: str | None = "complete", **environment: str
) -> Process:
    named = ["--runner", f"tests.worker.runners:{runner}"] if runner else []
    given = {"ADAPTLAB_BROKER_URL": NOBODY} | environment
    return processes.start("worker", *options, *named, environment=given)


def test_a_worker_does_as_many_jobs_as_it_was_to_take_and_leaves(
    processes: Processes, sessions: Sessions, watched: Watched, control: Control
) -> None:
    jobs = [submit(sessions) for _ in range(3)]
    worker = start(processes, "--drain", "--slots", "2", "--max-jobs", "2")
    assert worker.wait(PATIENCE) == 0
    states = sorted(watched.job(one).state for one in jobs)
    assert states == ["queued", "succeeded", "succeeded"]
    assert not any(is_running(pid) for pid in control.trainers())
    with sessions() as session:
        (stopped,) = session.scalars(select(Worker.stopped_at))
        assert stopped is not None, "it said goodbye"


@pytest.mark.parametrize(
    ("runner", "code", "state"),
    [("diverging", 1, "failed"), ("broken", 1, "failed")],
)
def test_the_exit_code_tells_how_the_one_job_ended(
    processes: Processes,
    sessions: Sessions,
    watched: Watched,
    runner: str,
    code: int,
    state: str,
) -> None:
    job = submit(sessions)
    assert start(processes, "--once", runner=runner).wait(PATIENCE) == code
    assert watched.job(job).state == state


def test_a_worker_that_finds_nothing_to_do_has_done_its_work(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    job = submit(sessions)
    assert start(processes, "--once", "--queue", "gpu").wait(PATIENCE) == 0
    assert watched.job(job).state == "queued", "in another queue"


def test_a_signal_saves_the_run_and_the_next_worker_goes_on_from_there(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    job = submit(sessions, steps=100_000, batch_size=4)  # not to its end
    more = {"OMP_NUM_THREADS": "1", "ADAPTLAB_LEASE_SECONDS": "60"} | SLURM
    first = start(processes, "--drain", "--save-within", "60", runner=None, **more)
    watched.wait_for_step(job)
    first.send_signal(signal.SIGUSR1)
    assert first.wait(PATIENCE) == 75, "start me again"
    left = watched.job(job)
    assert (left.state, left.attempt, left.lease_expires_at) == ("queued", 1, None)
    assert outcomes(sessions, job) == ["released"]
    start(processes, "--once", runner=None, **more)
    watched.wait(job, lambda found: found.attempt == 2 and found.step > left.step, "more steps")
    with sessions() as session:
        started = select(JobEvent.data).where(JobEvent.type == "running", JobEvent.attempt == 2)
        assert session.scalars(started).one()["resumed_from_step"] >= 1
    environment = attempts(sessions, job)[0].environment
    assert environment is not None
    allocation = environment["allocation"]
    assert (allocation["job_id"], allocation["restart_count"]) == ("4711", 1)
    assert allocation["partition"] == "gpu"


@pytest.mark.long("chaos at length")
def test_a_second_signal_ends_the_worker_at_once_but_not_within_five_seconds(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    job = submit(sessions)
    worker = start(processes, "--drain", "--save-within", "600", runner="stubborn")
    watched.wait_for_step(job)
    begin = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping; runs have" in processes.log.read_text(), "the first signal")

    def has_ended_when_asked_again() -> bool:
        worker.send_signal(signal.SIGTERM)
        return worker.poll() is not None

    wait_until(has_ended_when_asked_again, "the end")
    assert time.monotonic() - begin >= AGAIN_SECONDS
    assert worker.returncode == 128 + signal.SIGTERM
    assert watched.job(job).state == "running", "until its lease ends"


def test_a_trainer_that_is_warned_by_the_scheduler_goes_on_to_save_its_state(
    processes: Processes, sessions: Sessions, watched: Watched, control: Control
) -> None:
    """Slurm signals every process of a step; the worker decides."""
    job = submit(sessions)
    worker = start(processes, "--once", runner="held")
    watched.wait_for_step(job)
    (trainer,) = control.trainers()
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(trainer, number)
    control.allow()
    assert worker.wait(PATIENCE) == 0
    assert outcomes(sessions, job) == ["succeeded"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--once", "--slots", "2"), "--once takes one job"),
        (("--drain", "--idle-timeout", "5"), "--drain does not wait"),
        (("--drain", "--until", "soon"), "--until soon is not a future time"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: tuple[str, ...], told: str) -> None:
    refused = CliRunner().invoke(program, ["worker", *options], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert told in refused.stderr
