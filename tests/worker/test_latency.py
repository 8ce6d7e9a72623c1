"""From the creation of a job to its first training step, with the real engine and a warm worker."""

from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_pretrain_spec, a_principal
from tests.worker.conftest import Processes, Watched, ring_once, wait_for_worker

from adaptlab_db.tables import Attempt, Job
from adaptlab_services.jobs import jobs
from adaptlab_services.settings import Settings

TARGET = 0.3  # seconds
MOST_TRIES = 60  # others may be using this machine too: one that is quick is enough


def create(sessions: sessionmaker[Session], settings: Settings, name: str) -> UUID:
    with sessions.begin() as session:
        spec = a_pretrain_spec(name=name, training={"steps": 20, "batch_size": 8})
        created = jobs.create(session, a_principal(session), spec)
    assert created.queues == ("cpu",)
    ring_once(settings)
    return created.job.id


@pytest.mark.slow
def test_a_warm_worker_takes_its_first_step_soon_after_the_job_was_created(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, settings: Settings
) -> None:
    # An idle worker that does not look by itself: what is measured is the doorbell.
    processes.worker(None, ADAPTLAB_POLL_SECONDS="600", ADAPTLAB_HEARTBEAT_SECONDS="2")
    wait_for_worker(sessions)
    waits: list[float] = []
    while len(waits) < MOST_TRIES and min(waits, default=TARGET) >= TARGET:
        job_id = create(sessions, settings, f"base-{len(waits)}")
        assert watched.wait_for_state(job_id, "succeeded", "failed").error is None
        with sessions.begin() as session:
            times = select(Job.created_at, Attempt.first_step_at).join(
                Attempt, Attempt.job_id == Job.id
            )
            created_at, first_step_at = session.execute(times.where(Job.id == job_id)).one()
            assert first_step_at is not None
            waits.append((first_step_at - created_at).total_seconds())
    told = ", ".join(f"{wait * 1000:.0f}" for wait in waits)
    assert min(waits) < TARGET, f"create to first step, ms: {told}"
