"""Real workers on real servers: jobs, whatever happens to the worker."""

import signal
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.job_rows import attempts, event_types
from tests.making import (
    a_base_model,
    a_job,
    a_pretrain_spec,
    a_token,
    a_user,
    an_adapt_spec,
)
from tests.worker import runners
from tests.worker.conftest import (
    LEFT_ALONE,
    PATIENCE,
    Control,
    Process,
    Processes,
    Watched,
    is_running,
    ring_once,
    wait_for_worker,
    wait_until,
)

from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import (
    AttentionMapRow,
    CheckpointRow,
    EvaluationRow,
    Job,
    MetricPointRow,
    Replicate,
    Token,
    Worker,
)
from adaptlab_services.jobs import jobs
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings
from adaptlab_worker.trainer.trainer_process import TrainerOptions, trainer_environment

CAPTURE = {"attention": {"samples": 1}}
SPEC = a_pretrain_spec(seeds=1, capture=CAPTURE)
SILENCE = TrainerOptions().silence_seconds / 2
"""What takes a second is not for want of words from anybody; less would ask a lot of a machine."""


def submit(sessions: sessionmaker[Session], **columns: Any) -> UUID:
    with sessions.begin() as session:
        return a_job(session, SPEC, **columns)


def submit_for(
    sessions: sessionmaker[Session], carried_out: Callable[..., None], **columns: Any
) -> UUID:
    """Submit a job that a worker of `by_seed` carries out in this way."""
    spec = a_pretrain_spec(seeds=[runners.seed_of(carried_out)], capture=CAPTURE)
    with sessions.begin() as session:
        return a_job(session, spec, **columns)


def assert_one_set_of_results(sessions: sessionmaker[Session], job: Job) -> None:
    """The last attempt has all results once; earlier ones part of a curve."""
    with sessions.begin() as session:
        for table, rows in (
            (Replicate, 1),
            (EvaluationRow, 1),
            (AttentionMapRow, 1),
            (CheckpointRow, 1),
            (MetricPointRow, job.total_steps),
        ):
            of_job = select(func.count()).select_from(table).where(table.job_id == job.id)
            assert session.scalar(of_job.where(table.attempt == job.attempt)) == rows, table
            if table is not MetricPointRow:
                assert session.scalar(of_job) == rows, table


def test_a_job_is_trained_and_everything_that_it_reports_is_stored(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched
) -> None:
    job_id = submit(sessions)
    processes.worker()
    job = watched.wait_for_state(job_id, "succeeded", "failed")
    assert (job.state, job.attempt, job.step, job.error) == ("succeeded", 1, 4, None)
    assert_one_set_of_results(sessions, job)
    kinds = event_types(sessions, job_id)
    assert kinds[0] == "running"
    assert kinds[-1] == "succeeded"
    assert "first_step" in kinds
    (attempt,) = attempts(sessions, job_id)
    assert attempt.first_step_at is not None
    assert attempt.environment is not None
    assert attempt.environment["platform"] == "test"


def test_the_weights_of_the_base_model_reach_the_run(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched
) -> None:
    with sessions.begin() as session:
        a_base_model(session, contents=(b"zero", b"one"))
        job_ids = [
            a_job(session, an_adapt_spec(seeds=1)) for _ in range(2)
        ]  # the second from the cache
    processes.worker()
    for job_id in job_ids:
        watched.wait_for_state(job_id, "succeeded")
        with sessions.begin() as session:
            stored = select(CheckpointRow.artifact_sha256).where(CheckpointRow.job_id == job_id)
            sha256 = session.scalars(stored).one()
            content = b"".join(ArtifactStore(session).read(sha256))
            assert b"trained on zero,one" in content


def test_a_job_of_a_killed_worker_is_taken_up_again_and_finishes_once(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, control: Control
) -> None:
    job_id = submit(sessions)
    first = processes.worker("held", **LEFT_ALONE)
    watched.wait_for_step(job_id)
    (trainer,) = control.trainers()
    first.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not is_running(trainer), "the end of its trainer") < SILENCE
    control.allow()
    processes.worker("held")
    processes.start("beat")
    job = watched.wait_for_state(job_id, "succeeded", "failed")
    assert (job.state, job.attempt) == ("succeeded", 2)
    assert [(a.outcome, a.reason) for a in attempts(sessions, job_id)] == [
        ("lost", "worker_lost"),
        ("succeeded", None),
    ]
    assert_one_set_of_results(sessions, job)


def test_a_job_of_a_killed_trainer_is_tried_again_until_its_attempts_are_spent(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, control: Control
) -> None:
    job_id = submit_for(sessions, runners.killed_once)
    processes.worker("by_seed")
    job = watched.wait_for_state(job_id, "succeeded", "failed")
    assert (job.state, job.attempt) == ("succeeded", 2)
    first, _ = attempts(sessions, job_id)
    assert (first.outcome, first.reason) == ("failed", "killed")
    assert first.error is not None
    assert "SIGKILL" in first.error
    assert len(control.trainers()) == 2
    assert_one_set_of_results(sessions, job)
    poison = submit_for(sessions, runners.killed, attempts_max=2)
    job = watched.wait_for_state(poison, "failed")
    assert (job.attempt, job.reason) == (2, "killed")


def test_a_cancelled_job_stops_soon_and_its_trainer_stays_warm(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, control: Control
) -> None:
    job_id = submit(sessions)
    processes.worker("held")
    watched.wait_for_step(job_id)
    cancel(sessions, job_id)
    took = watched.wait(job_id, lambda job: job.state == "cancelled", "the cancellation")
    assert took < SILENCE
    control.allow()
    following = submit(sessions)
    watched.wait_for_state(following, "succeeded")
    assert len(control.trainers()) == 1


def test_a_cancelled_job_whose_trainer_does_not_listen_is_killed_with_all_that_it_started(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, control: Control
) -> None:
    job_id = submit(sessions)
    processes.worker("stubborn")
    watched.wait_for_step(job_id)
    cancel(sessions, job_id)
    watched.wait_for_state(job_id, "cancelled")
    wait_until(lambda: not is_running(int(control.read("child"))), "the end of the child")
    assert not any(is_running(pid) for pid in control.trainers())


FAILURES = (
    (runners.invalid, "user_error", 1, "not like this"),
    (runners.diverging, "diverged", 1, "every replicate diverged"),
    (runners.hungry, "out_of_memory", 1, "can't allocate memory"),
    (runners.broken, "system_error", 1, "RuntimeError: a bug at heart"),
    (runners.outside, "system_error", 2, "outside the run's scratch folder"),
    (runners.held, "timeout", 1, "max_seconds of 1"),
)


def test_a_failure_has_its_reason_and_is_tried_again_only_where_that_can_help(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched
) -> None:
    """One worker meets all of them, and runs the next job after each."""
    job_ids: list[UUID] = []
    for carried_out, reason, *_ in FAILURES:
        limit = {"max_seconds": 1} if reason == "timeout" else {}
        job_ids.append(submit_for(sessions, carried_out, attempts_max=2, **limit))
    processes.worker("by_seed")
    for job_id, (_, reason, attempt, told) in zip(job_ids, FAILURES, strict=True):
        job = watched.wait_for_state(job_id, "failed")
        assert (job.reason, job.attempt) == (reason, attempt)
        assert told in str(job.error)
    with sessions.begin() as session:
        of_diverged = select(MetricPointRow).where(MetricPointRow.job_id == job_ids[1])
        points = session.scalars(of_diverged).all()
        assert [(point.step, point.value) for point in points] == [(1, None)], "its curve is kept"


def test_a_worker_that_is_asked_to_end_gives_its_job_back_at_once(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched
) -> None:
    job_id = submit(sessions, attempts_max=1)
    assert_given_back(job_id, processes.worker("held"), sessions, watched)
    processes.worker()
    assert watched.wait_for_state(job_id, "succeeded", "failed").state == "succeeded"


def test_a_worker_that_is_asked_to_end_does_not_wait_for_a_stubborn_trainer(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched
) -> None:
    job_id = submit(sessions, attempts_max=1)
    assert_given_back(job_id, processes.worker("stubborn"), sessions, watched)


@pytest.mark.long("chaos at length")
@pytest.mark.parametrize(
    ("options", "number"), [((), signal.SIGUSR2), (("--save-within", "60"), signal.SIGTERM)]
)
def test_a_worker_that_may_take_its_time_lets_a_run_save_its_state(
    processes: Processes,
    sessions: sessionmaker[Session],
    watched: Watched,
    control: Control,
    options: tuple[str, ...],
    number: signal.Signals,
) -> None:
    job_id = submit(sessions, attempts_max=1)
    runner = "tests.worker.runners:slow_to_save"
    worker = processes.start("worker", "--runner", runner, *options)
    assert_given_back(job_id, worker, sessions, watched, number)
    assert worker.returncode == 0
    assert (control.folder / "saved").exists(), "the trainer was not killed"
    with sessions() as session:
        assert session.scalars(select(Worker.stopped_at)).one() is not None, "it is not lost"


def assert_given_back(
    job_id: UUID,
    worker: Process,
    sessions: sessionmaker[Session],
    watched: Watched,
    number: signal.Signals = signal.SIGTERM,
) -> None:
    """Ask a worker to end during a run, and see its job queued."""
    watched.wait_for_step(job_id)
    started = time.monotonic()
    worker.send_signal(number)
    worker.wait(PATIENCE)
    assert time.monotonic() - started < SILENCE
    job = watched.job(job_id)
    assert (job.state, job.attempt, job.attempts_max) == ("queued", 1, 2)
    assert [(a.outcome, a.reason) for a in attempts(sessions, job_id)] == [
        ("released", "preempted")
    ]


def test_an_idle_worker_ends_quickly_and_leaves_nothing_but_the_cached_weights(
    processes: Processes,
    sessions: sessionmaker[Session],
    watched: Watched,
    control: Control,
    settings: Settings,
) -> None:
    with sessions.begin() as session:
        a_base_model(session, contents=(b"zero",))
        job_id = a_job(session, an_adapt_spec(seeds=1))
    worker = processes.worker()
    watched.wait_for_state(job_id, "succeeded")
    started = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
    assert time.monotonic() - started < SILENCE
    wait_until(lambda: not any(map(is_running, control.trainers())), "the end of its trainer")
    left = [p for p in (settings.data_dir / "worker").rglob("*") if p.is_file()]
    cached = [p for p in left if p.parent.name == "weights"]
    assert [p.read_bytes() for p in cached] == [b"zero"]
    locks = sorted(p.name for p in left if p not in cached)
    assert locks == ["slot-0.lock", "starting.lock"], "empty, and used again"


def test_a_frozen_worker_that_lost_its_lease_changes_nothing_when_it_wakes_up(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, control: Control
) -> None:
    job_id = submit(sessions)
    frozen = processes.worker("held", **LEFT_ALONE)
    watched.wait_for_step(job_id)
    frozen.send_signal(signal.SIGSTOP)
    processes.worker("complete")
    processes.start("beat")
    watched.wait(job_id, lambda job: job.state == "succeeded", "the other worker's success")
    job = watched.job(job_id)
    assert job.attempt == 2
    control.allow()  # the frozen worker's trainer finishes, and its results lie in the pipe
    frozen.send_signal(signal.SIGCONT)
    frozen.send_signal(signal.SIGTERM)
    frozen.wait(PATIENCE)
    after = watched.job(job_id)
    assert (after.state, after.attempt, after.event_sequence) == (
        "succeeded",
        2,
        job.event_sequence,
    )
    assert_one_set_of_results(sessions, after)
    assert [a.outcome for a in attempts(sessions, job_id)] == ["lost", "succeeded"]


def test_the_trainer_has_no_key_to_any_door(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, control: Control
) -> None:
    job_id = submit(sessions)
    processes.worker("environment", PGPASSWORD="x", HF_TOKEN="y")
    watched.wait_for_state(job_id, "succeeded")
    names = control.read("environment").split()
    assert "RUNNER_CONTROL" in names  # it is the trainer's environment that we look at
    keys = {n for n in names if n.startswith(("ADAPTLAB", "PG")) or "TOKEN" in n}
    assert keys <= {"ADAPTLAB_COMPILE"}, "which opens nothing"


def test_what_is_set_for_trainers_reaches_them() -> None:
    given = {"ADAPTLAB_COMPILE": "off", "ADAPTLAB_DATABASE_URL": "postgresql://ada:x@localhost/lab"}
    kept = trainer_environment(given, TrainerOptions())
    assert [name for name in kept if name in given] == ["ADAPTLAB_COMPILE"]


def test_a_ring_wakes_a_worker_that_would_not_have_looked(
    processes: Processes,
    sessions: sessionmaker[Session],
    watched: Watched,
    settings: Settings,
) -> None:
    processes.worker(ADAPTLAB_POLL_SECONDS="600")
    wait_for_worker(sessions)
    job_ids = [submit(sessions) for _ in range(3)]
    ring_once(settings)  # one ring, three jobs: it goes on while there is work
    for job_id in job_ids:
        watched.wait_for_state(job_id, "succeeded")


def test_a_job_nobody_rang_for_is_found_without_any_broker(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched
) -> None:
    job_id = submit(sessions)
    worker = processes.worker(ADAPTLAB_BROKER_URL="redis://127.0.0.1:1/0")
    watched.wait_for_state(job_id, "succeeded")
    started = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    worker.wait(PATIENCE)
    assert time.monotonic() - started < SILENCE


def test_beat_has_queues_with_work_rung_for_and_leaves_no_file(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched
) -> None:
    processes.worker(ADAPTLAB_POLL_SECONDS="600")
    wait_for_worker(sessions)
    job_id = submit(sessions)
    beat = processes.start("beat")
    watched.wait_for_state(job_id, "succeeded")
    beat.send_signal(signal.SIGTERM)
    beat.wait(PATIENCE)
    assert list(processes.log.parent.glob("celerybeat*")) == []


def cancel(sessions: sessionmaker[Session], job_id: UUID) -> None:
    with sessions.begin() as session:
        a_token(session)
        token_id = session.scalars(select(Token.id).limit(1)).one()
        principal = Principal(user_id=a_user(session), name="ada", token_id=token_id, scopes=())
        jobs.cancel(session, principal, job_id)
