"""A job that is paused stops soon, and when it is resumed goes on as if nothing had happened."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec, a_principal
from tests.worker.conftest import Control, Processes, Watched

from adaptlab_db.tables import Attempt, Checkpoint, MetricPoint
from adaptlab_services import job_control

Sessions = sessionmaker[Session]
STEPS = 800


def control(sessions: Sessions, verb: str, job_id: UUID) -> None:
    with sessions.begin() as session:
        getattr(job_control, verb)(session, a_principal(session), job_id)


def results(sessions: Sessions, job_id: UUID) -> tuple[list[str], list[tuple[object, ...]]]:
    """The digests of the weights, and every point of the curves of the last attempt."""
    with sessions.begin() as session:
        last = select(Attempt.attempt).where(Attempt.job_id == job_id)
        attempt = max(session.scalars(last))
        weights = select(Checkpoint.artifact_sha256).where(Checkpoint.job_id == job_id)
        points = (
            select(MetricPoint.replicate, MetricPoint.name, MetricPoint.step, MetricPoint.value)
            .where(MetricPoint.job_id == job_id, MetricPoint.attempt == attempt)
            .order_by(MetricPoint.replicate, MetricPoint.name, MetricPoint.step)
        )
        digests = list(session.scalars(weights.order_by(Checkpoint.replicate)))
        return digests, [tuple(row) for row in session.execute(points)]


def test_a_paused_job_goes_on_exactly_when_it_is_resumed(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    spec = a_pretrain_spec(seeds=2, training={"steps": STEPS, "batch_size": 4})
    with sessions.begin() as session:
        paused, unbroken = a_job(session, spec, priority=9), a_job(session, spec)
    # A request to pause is heard with a heartbeat, and must be before the run ends by itself.
    processes.worker(None, OMP_NUM_THREADS="1", ADAPTLAB_HEARTBEAT_SECONDS="0.1")
    watched.wait_for_step(paused)
    control(sessions, "pause", paused)
    job = watched.wait_for_state(paused, "paused", "succeeded", "failed")
    assert (job.state, job.step < STEPS) == ("paused", True)
    watched.wait_for_state(unbroken, "succeeded")  # meanwhile the worker does something else
    assert watched.job(paused).state == "paused"
    control(sessions, "resume", paused)
    job = watched.wait_for_state(paused, "succeeded", "failed")
    assert (job.state, job.attempt) == ("succeeded", 2)
    with sessions.begin() as session:
        outcomes = select(Attempt.outcome).where(Attempt.job_id == paused).order_by(Attempt.attempt)
        assert list(session.scalars(outcomes)) == ["paused", "succeeded"]
    weights, curves = results(sessions, paused)
    assert len(weights) == 2
    assert (weights, curves) == results(sessions, unbroken)


def test_a_run_that_saves_nothing_begins_anew_when_it_is_resumed(
    processes: Processes, sessions: Sessions, watched: Watched, control: Control
) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, a_pretrain_spec(seeds=1))
    processes.worker("held")
    watched.wait_for_step(job_id)
    with sessions.begin() as session:
        job_control.pause(session, a_principal(session), job_id)
    took = watched.wait(job_id, lambda job: job.state == "paused", "the pause")
    assert took < 14, "it has fifteen to save itself, and needs none"
    with sessions.begin() as session:
        job_control.resume(session, a_principal(session), job_id)
    control.allow()
    assert watched.wait_for_state(job_id, "succeeded").attempt == 2
