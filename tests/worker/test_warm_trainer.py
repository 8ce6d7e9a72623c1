"""A trainer that is ready before a job, and stays for the next.

How long a job takes to its first step is measured by `python -m bench server`.
"""

import psutil
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_pretrain_spec, a_principal
from tests.worker.conftest import Processes, Watched, ring_once, wait_for_worker

from adaptlab_db.tables import AttemptRow
from adaptlab_services.jobs import jobs
from adaptlab_services.settings import Settings


@pytest.mark.slow
def test_jobs_are_trained_by_a_process_that_was_there_before_they_came(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, settings: Settings
) -> None:
    # An idle worker that does not look by itself: the doorbell wakes it.
    worker = processes.worker(None, ADAPTLAB_POLL_SECONDS="600", ADAPTLAB_HEARTBEAT_SECONDS="2")
    wait_for_worker(sessions)
    warm = {*psutil.Process(worker.pid).children(recursive=True)}
    assert warm
    for name in ("first", "second"):
        spec = a_pretrain_spec(name=name, training={"steps": 20, "batch_size": 8})
        with sessions.begin() as session:
            job_id = jobs.create(session, a_principal(session), spec).job.id
        ring_once(settings)
        done = watched.wait_for_state(job_id, "succeeded", "failed")
        assert (done.state, done.error) == ("succeeded", None)
        with sessions.begin() as session:
            begun = select(AttemptRow.first_step_at).where(AttemptRow.job_id == job_id)
            first_step_at = session.scalars(begun).one()
        assert first_step_at is not None
        assert done.created_at < first_step_at
        assert warm <= {*psutil.Process(worker.pid).children(recursive=True)}
