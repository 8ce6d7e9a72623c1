"""Workers with limited time claim only jobs that should end in it."""

from pathlib import Path
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.job_rows import event_types, job
from tests.making import a_job, a_made_up_ledger, a_pretrain_spec, a_worker

from adaptlab.runs.events import TrainingSaved
from adaptlab_db.tables import AttemptRow, Job
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Claim

Sessions = sessionmaker[Session]
MINUTE = 60.0
QUICK = {"steps": 4, "batch_size": 4}
ENDLESS = {"steps": 1_000_000, "batch_size": 4}  # many minutes, by any guess


def submit(sessions: Sessions, training: dict[str, int], priority: int = 0) -> UUID:
    with sessions.begin() as session:
        spec = a_pretrain_spec(seeds=1, training=training)
        return a_job(session, spec, priority=priority)


def claimed(ledger: DatabaseLedger, within_seconds: float | None) -> Claim | None:
    return ledger.claim(a_worker(ledger), ["cpu"], None, within_seconds)


def test_a_job_that_would_take_too_long_is_passed_over(sessions: Sessions) -> None:
    ledger = a_made_up_ledger(sessions)
    endless, quick = submit(sessions, ENDLESS, priority=9), submit(sessions, QUICK)
    taken = claimed(ledger, MINUTE)
    assert taken is not None
    assert taken.job_id == quick, "though the other is more urgent"
    assert claimed(ledger, MINUTE) is None
    left = job(sessions, endless)
    assert (left.state, left.attempt, left.worker_id) == ("queued", 0, None)
    assert event_types(sessions, endless) == []
    with sessions() as session:
        assert session.scalars(select(AttemptRow.job_id)).all() == [quick]
    taken = claimed(ledger, None)
    assert taken is not None
    assert taken.job_id == endless


def test_what_was_saved_needs_no_time_again(sessions: Sessions) -> None:
    ledger = a_made_up_ledger(sessions)
    endless = submit(sessions, ENDLESS)
    first = claimed(ledger, None)
    assert first is not None
    path = Path("training.safetensors")
    sha256 = ledger.put_artifact(first, [b"nearly done"]).sha256
    saved = TrainingSaved(step=ENDLESS["steps"] - 1, path=path)
    ledger.record(first, [saved], {path: sha256})
    ledger.release(first, "preempted")
    again = claimed(ledger, MINUTE)
    assert again is not None
    assert (again.job_id, again.attempt) == (endless, 2)


def test_a_spec_that_cannot_be_read_is_no_reason_to_pass_a_job_over(sessions: Sessions) -> None:
    ledger = a_made_up_ledger(sessions)
    broken = submit(sessions, QUICK)
    with sessions.begin() as session:
        session.scalars(select(Job)).one().resolved_spec = {"kind": "of old"}
    assert claimed(ledger, MINUTE) is None
    assert job(sessions, broken).state == "failed", "as any other worker would say"
