"""Commits that were lost or unconfirmed: claims are never repeated."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_claim, a_job, a_worker, an_adapt_spec

from adaptlab.runs.events import MetricPoint, Metrics, Progress, TrainingSaved
from adaptlab_db.tables import AttemptRow, Job, JobEvent, TrainingStateRow, Worker
from adaptlab_db.tables import MetricPointRow as Point
from adaptlab_services.errors import LeaseLost
from adaptlab_services.leases import leases, recording
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.leases.reaping import reap
from adaptlab_services.lifecycle.held_leases import Claim

Sessions = sessionmaker[Session]
Write = Callable[[DatabaseLedger, Claim], object]

WRITES: dict[str, Write] = {
    "heartbeat": lambda ledger, claim: ledger.heartbeat(claim, 99),
    "record": lambda ledger, claim: ledger.record(
        claim, [Progress(phase="training", step=99, total=99)]
    ),
    "put_artifact": lambda ledger, claim: ledger.put_artifact(claim, [b"stale"]),
    "finish": lambda ledger, claim: ledger.finish(claim),
    "fail": lambda ledger, claim: ledger.fail(claim, "diverged", "stale", retry=False),
    "release": lambda ledger, claim: ledger.release(claim, "preempted"),
    "stopped": lambda ledger, claim: ledger.stopped(claim),
}


@pytest.fixture
def job_id(sessions: Sessions) -> UUID:
    with sessions.begin() as session:
        return a_job(session, an_adapt_spec(training={"steps": 99, "batch_size": 4}))


def job(sessions: Sessions, job_id: UUID) -> Job:
    with sessions() as session:
        return session.scalars(select(Job).where(Job.id == job_id)).one()


def forget_the_claim(sessions: Sessions, job_id: UUID) -> None:
    """The database as before the claim: restored, or a late copy."""
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE jobs DISABLE TRIGGER guard_states"))
        session.execute(delete(AttemptRow).where(AttemptRow.job_id == job_id))
        session.execute(delete(JobEvent).where(JobEvent.job_id == job_id))
        session.execute(
            update(Job)
            .where(Job.id == job_id)
            .values(
                state="queued",
                attempt=0,
                worker_id=None,
                claim_id=None,
                lease_expires_at=None,
                event_sequence=0,
            )
        )
        session.execute(text("ALTER TABLE jobs ENABLE TRIGGER guard_states"))


# --- what was committed is forgotten --------------------------------------------------------------


@pytest.mark.long("chaos at length", but=1)
@pytest.mark.parametrize("write", WRITES)
def test_two_attempts_of_one_number_are_told_apart(
    sessions: Sessions, ledger: DatabaseLedger, job_id: UUID, write: str
) -> None:
    forgotten = a_claim(ledger)
    forget_the_claim(sessions, job_id)
    with pytest.raises(LeaseLost):
        WRITES[write](ledger, forgotten)
    present = a_claim(ledger)
    assert present.attempt == forgotten.attempt
    with pytest.raises(LeaseLost):
        WRITES[write](ledger, forgotten)
    row = job(sessions, job_id)
    assert (row.state, row.step, row.event_sequence) == ("running", 0, 1)
    ledger.finish(present)


@pytest.mark.parametrize("write", ["heartbeat", "record", "finish", "fail", "release", "stopped"])
def test_by_the_number_alone_the_forgotten_one_would_write(
    sessions: Sessions,
    ledger: DatabaseLedger,
    job_id: UUID,
    write: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_number(claim: Claim) -> list[object]:
        return [Job.id == claim.job_id, Job.attempt == claim.attempt, Job.state == "running"]

    forgotten = a_claim(ledger)
    forget_the_claim(sessions, job_id)
    a_claim(ledger)
    monkeypatch.setattr(leases, "held", by_number)
    monkeypatch.setattr(recording, "held", by_number)
    WRITES[write](ledger, forgotten)
    row = job(sessions, job_id)
    assert (row.state, row.step) != ("running", 0)


def test_the_end_of_another_is_not_taken_for_ones_own(
    sessions: Sessions, ledger: DatabaseLedger, job_id: UUID
) -> None:
    forgotten = a_claim(ledger)
    forget_the_claim(sessions, job_id)
    ledger.finish(a_claim(ledger))
    with pytest.raises(LeaseLost):
        ledger.finish(forgotten)


# --- what was committed is not told ---------------------------------------------------------------


def test_a_claim_whose_answer_was_lost_is_had_again(
    sessions: Sessions, ledger: DatabaseLedger, job_id: UUID
) -> None:
    with sessions.begin() as session:
        other = a_job(session, an_adapt_spec(), priority=0)
    worker, name = a_worker(ledger), uuid.uuid4()
    lost = ledger.claim(worker, ["cpu"], name)
    again = ledger.claim(worker, ["cpu"], name)
    assert lost == again
    assert again is not None
    assert again.job_id == job_id
    following = ledger.claim(worker, ["cpu"], uuid.uuid4())
    assert following is not None
    assert following.job_id == other


@pytest.mark.parametrize(
    ("heard_of", "heartbeats", "counts"),
    [
        (20, 0, False),  # seconds after the claim, of a lease of 30: the worker lives, and knew not
        (2, 0, True),  # it died early, perhaps of this job
        (20, 1, True),  # it knew of the job
    ],
)
def test_an_attempt_of_which_no_worker_learned_does_not_count(
    sessions: Sessions,
    ledger: DatabaseLedger,
    job_id: UUID,
    heard_of: int,
    heartbeats: int,
    counts: bool,
) -> None:
    claim = a_claim(ledger)
    for _ in range(heartbeats):
        ledger.heartbeat(claim, 0)
    a_while = timedelta(seconds=31)
    with sessions.begin() as session:  # that long ago
        then = update(Job).values(
            lease_expires_at=Job.lease_expires_at - a_while, heartbeat_at=Job.heartbeat_at - a_while
        )
        session.execute(then)
        session.execute(update(AttemptRow).values(started_at=AttemptRow.started_at - a_while))
        heard = select(AttemptRow.started_at + timedelta(seconds=heard_of)).scalar_subquery()
        session.execute(update(Worker).values(heartbeat_at=heard))
    with sessions.begin() as session:
        assert reap(session).count == 1
    row = job(sessions, job_id)
    assert (row.state, row.attempts_max) == ("queued", 3 if counts else 4)


def test_the_lease_of_a_claim_had_again_begins_anew(
    sessions: Sessions, ledger: DatabaseLedger, job_id: UUID
) -> None:
    worker, name = a_worker(ledger), uuid.uuid4()
    ledger.claim(worker, ["cpu"], name)
    with sessions.begin() as session:
        session.execute(update(Job).values(lease_expires_at=func.clock_timestamp()))
    ledger.claim(worker, ["cpu"], name)
    with sessions() as session:
        left = session.scalars(select(Job.lease_expires_at - func.clock_timestamp())).one()
    assert timedelta(seconds=0) < left < timedelta(seconds=30)


def test_a_claim_that_goes_on_is_had_again_with_its_curve_once(
    sessions: Sessions, ledger: DatabaseLedger, job_id: UUID
) -> None:
    path, first = Path("training-1.safetensors"), a_claim(ledger)
    stored = ledger.put_artifact(first, [b"state"])
    point = MetricPoint(replicate=0, name="train_loss", step=1, value=1.0)
    saved = [Metrics(points=(point,)), TrainingSaved(step=1, path=path)]
    ledger.record(first, saved, {path: stored.sha256})
    ledger.release(first, "preempted")
    worker, name = a_worker(ledger), uuid.uuid4()
    claims = [ledger.claim(worker, ["cpu"], name) for _ in range(2)]
    assert claims[0] == claims[1]
    with sessions() as session:
        steps = session.execute(select(Point.attempt, Point.step).order_by(Point.attempt)).all()
        assert [tuple(row) for row in steps] == [(1, 1), (2, 1)]
        assert session.scalars(select(TrainingStateRow.step)).one() == 1
