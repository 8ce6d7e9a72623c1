"""A paused job stops soon, and is resumed as if never interrupted."""

from contextlib import suppress
from typing import Literal
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec, a_principal
from tests.worker.conftest import Control, Processes, Watched

from adaptlab.specs.spec import PretrainSpec
from adaptlab_db.tables import AttemptRow, CheckpointRow, MetricPointRow
from adaptlab_services.errors import StateConflict
from adaptlab_services.jobs.control import pause, resume

Sessions = sessionmaker[Session]
STEPS = (800, 4_000, 20_000)
"""A request to pause is heard with a heartbeat; on a busy machine a short run may end before."""


def request(sessions: Sessions, verb: Literal["pause", "resume"], job_id: UUID) -> None:
    with sessions.begin() as session:
        change = pause if verb == "pause" else resume
        change(session, a_principal(session), job_id)


def results(sessions: Sessions, job_id: UUID) -> tuple[list[str], list[tuple[object, ...]]]:
    """The digests of the weights, and the last attempt's curves."""
    with sessions.begin() as session:
        last = select(AttemptRow.attempt).where(AttemptRow.job_id == job_id)
        attempt = max(session.scalars(last))
        weights = select(CheckpointRow.artifact_sha256).where(CheckpointRow.job_id == job_id)
        points = (
            select(
                MetricPointRow.replicate,
                MetricPointRow.name,
                MetricPointRow.step,
                MetricPointRow.value,
            )
            .where(MetricPointRow.job_id == job_id, MetricPointRow.attempt == attempt)
            .order_by(MetricPointRow.replicate, MetricPointRow.name, MetricPointRow.step)
        )
        digests = list(session.scalars(weights.order_by(CheckpointRow.replicate)))
        return digests, [tuple(row) for row in session.execute(points)]


@pytest.mark.long("chaos at length")
def test_a_paused_job_goes_on_exactly_when_it_is_resumed(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    processes.worker(None, OMP_NUM_THREADS="1", ADAPTLAB_HEARTBEAT_SECONDS="0.1")
    spec, paused = paused_midway(sessions, watched)
    with sessions.begin() as session:
        unbroken = a_job(session, spec)
    watched.wait_for_state(unbroken, "succeeded")  # meanwhile the worker does something else
    assert watched.job(paused).state == "paused"
    request(sessions, "resume", paused)
    job = watched.wait_for_state(paused, "succeeded", "failed")
    assert (job.state, job.attempt) == ("succeeded", 2)
    with sessions.begin() as session:
        outcomes = (
            select(AttemptRow.outcome)
            .where(AttemptRow.job_id == paused)
            .order_by(AttemptRow.attempt)
        )
        assert list(session.scalars(outcomes)) == ["paused", "succeeded"]
    weights, curves = results(sessions, paused)
    assert len(weights) == 2
    assert (weights, curves) == results(sessions, unbroken)


def paused_midway(sessions: Sessions, watched: Watched) -> tuple[PretrainSpec, UUID]:
    """A job that was paused before its end, and what it was to do."""
    for steps in STEPS:
        spec = a_pretrain_spec(seeds=2, training={"steps": steps, "batch_size": 4})
        with sessions.begin() as session:
            job_id = a_job(session, spec)
        watched.wait(job_id, lambda job: job.step >= 1, "a first step")
        with suppress(StateConflict):  # it has ended already
            request(sessions, "pause", job_id)
        job = watched.wait_for_state(job_id, "paused", "succeeded", "failed")
        if job.state != "succeeded":
            assert (job.state, job.step < steps) == ("paused", True), job.error
            return spec, job_id
    raise AssertionError("every job ended before it could be paused")


def test_a_run_that_saves_nothing_begins_anew_when_it_is_resumed(
    processes: Processes, sessions: Sessions, watched: Watched, control: Control
) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, a_pretrain_spec(seeds=1))
    processes.worker("held")
    watched.wait_for_step(job_id)
    with sessions.begin() as session:
        pause(session, a_principal(session), job_id)
    took = watched.wait(job_id, lambda job: job.state == "paused", "the pause")
    assert took < 14, "it has fifteen to save itself, and needs none"
    with sessions.begin() as session:
        resume(session, a_principal(session), job_id)
    control.allow()
    assert watched.wait_for_state(job_id, "succeeded").attempt == 2
