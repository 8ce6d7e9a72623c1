"""A refused report ends the attempt with the reason, without retry."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker
from tests.job_rows import job
from tests.making import a_claim, a_job, a_pretrain_spec, metric_points

from adaptlab.runs.events import Event, Metrics
from adaptlab_services.leases.leases import NO_ARTIFACTS, DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Lease
from adaptlab_worker.attempt.attempt import Attempt
from adaptlab_worker.attempt.recorder import Recorder
from adaptlab_worker.trainer.protocol import Ended

Sessions = sessionmaker[Session]


class Counting(DatabaseLedger):
    """A ledger that counts its records."""

    asked = 0

    def record(
        self, lease: Lease, events: Sequence[Event], artifacts: Mapping[Path, str] = NO_ARTIFACTS
    ) -> None:
        self.asked += 1
        super().record(lease, events, artifacts)


def carried_out(
    sessions: Sessions, folder: Path, events: Iterable[Event], **changes: Any
) -> tuple[UUID, int]:
    """Report as a worker does; the job, and how often events were sent."""
    with sessions.begin() as session:
        job_id = a_job(session, attempts_max=3, **changes)
    ledger = Counting(sessions, lease_seconds=30)
    claim = a_claim(ledger)
    recorder = Recorder(ledger, claim, folder)
    recorder.start()
    for event in events:
        recorder.put(event)
    recorder.close()
    assert recorder.join(30)
    attempt = Attempt(ledger, claim, time.monotonic(), 1.0, 30.0, lambda: False, lambda _: None)
    attempt._settle(Ended(outcome="finished"), recorder)  # pyright: ignore[reportPrivateUsage]
    return job_id, ledger.asked


def test_a_refused_report_fails_the_attempt_for_good(sessions: Sessions, tmp_path: Path) -> None:
    false = Metrics(points=metric_points((99,)))
    job_id, asked = carried_out(sessions, tmp_path, [false])
    row = job(sessions, job_id)
    assert (row.state, row.reason, row.attempt, asked) == ("failed", "system_error", 1, 1)
    assert "The server refused the results: /events/0/points/0/step" in str(row.error)


def test_a_base_model_without_checkpoints_fails_for_good(
    sessions: Sessions, tmp_path: Path
) -> None:
    job_id, _ = carried_out(sessions, tmp_path, [], spec=a_pretrain_spec(seeds=2))
    row = job(sessions, job_id)
    assert (row.state, row.reason, row.attempt) == ("failed", "system_error", 1)
    assert "refused the end of the run: /outcome" in str(row.error)


def test_a_true_report_succeeds(sessions: Sessions, tmp_path: Path) -> None:
    job_id, asked = carried_out(sessions, tmp_path, [Metrics(points=metric_points((1,)))])
    assert (job(sessions, job_id).state, asked) == ("succeeded", 1)
