"""A saved training state: one per job, handed on, and then deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.ledgers import WAYS, ledger_by
from tests.making import a_claim, a_job, an_adapt_spec, an_environment, metric_points

from adaptlab.runs.events import Metrics, Started, TrainingSaved
from adaptlab.runs.inputs import InputFile, SavedTraining
from adaptlab_db.tables import Artifact, Job, JobEvent, MetricPointRow, TrainingStateRow
from adaptlab_services.errors import LeaseLost
from adaptlab_services.leases.leases import DatabaseLedger, Ledger
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]


@pytest.fixture(params=WAYS)
def ledger(
    request: pytest.FixtureRequest, sessions: Sessions, settings: Settings
) -> Iterator[Ledger]:
    """A worker's door to jobs and results, of either kind."""
    with ledger_by(request.param, sessions, settings) as door:
        yield door


@pytest.fixture
def claim(sessions: Sessions, ledger: DatabaseLedger) -> Claim:
    with sessions.begin() as session:
        a_job(session, an_adapt_spec(training={"steps": 20, "batch_size": 4}))
    return a_claim(ledger)


def save(ledger: DatabaseLedger, claim: Claim, step: int, content: bytes) -> str:
    """Record points up to one step beyond a state, and the state."""
    path = Path(f"training-{step}.safetensors")
    sha256 = ledger.put_artifact(claim, [content]).sha256
    points = Metrics(points=metric_points(range(1, step + 2)))
    ledger.record(claim, [points, TrainingSaved(step=step, path=path)], {path: sha256})
    return sha256


def stored(sessions: Sessions) -> tuple[list[str], list[str]]:
    """The digests of the states that are kept, and of all artifacts."""
    with sessions.begin() as session:
        states = session.scalars(select(TrainingStateRow.artifact_sha256))
        return list(states), list(session.scalars(select(Artifact.sha256)))


def test_only_the_newest_state_of_a_job_is_kept(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
):
    save(ledger, claim, 5, b"five")
    newest = save(ledger, claim, 9, b"nine")
    assert stored(sessions) == ([newest], [newest]), "the bytes of the older one are let go"


def test_the_next_attempt_goes_on_from_it_with_the_curve_up_to_there(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
):
    assert claim.inputs.resume is None
    sha256 = save(ledger, claim, 5, b"five")
    ledger.release(claim, "preempted")
    again = a_claim(ledger)
    assert again.attempt == 2
    assert again.inputs.resume == SavedTraining(step=5, state=InputFile(sha256=sha256))
    assert b"".join(ledger.fetch_artifact(again, sha256)) == b"five"
    with sessions.begin() as session:
        steps = (
            select(MetricPointRow.step)
            .where(MetricPointRow.attempt == 2)
            .order_by(MetricPointRow.step)
        )
        assert list(session.scalars(steps)) == [1, 2, 3, 4, 5], "not the sixth, which comes again"
        assert session.scalar(select(Job.step)) == 5


def test_the_event_that_starts_an_attempt_tells_from_which_step(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
):
    save(ledger, claim, 5, b"five")
    ledger.release(claim, "preempted")
    a_claim(ledger)
    with sessions.begin() as session:
        started = select(JobEvent.data).where(JobEvent.type == "running")
        first, second = session.scalars(started.order_by(JobEvent.sequence))
    assert set(first) == {"worker"}
    assert second == {"worker": second["worker"], "resumed_from_step": 5}


def test_a_state_from_a_lost_lease_is_refused(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
):
    kept = save(ledger, claim, 5, b"five")
    ledger.release(claim, "preempted")
    a_claim(ledger)
    path = Path("stale.safetensors")
    with pytest.raises(LeaseLost):
        ledger.record(claim, [TrainingSaved(step=7, path=path)], {path: kept})
    with sessions.begin() as session:
        assert session.scalar(select(TrainingStateRow.step)) == 5


@pytest.mark.parametrize("end", ["finish", "fail", "stopped"])
def test_a_job_that_has_ended_keeps_no_state(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim, end: str
):
    save(ledger, claim, 5, b"five")
    if end == "fail":
        ledger.fail(claim, "diverged", "the loss is gone", retry=False)
    else:
        getattr(ledger, end)(claim)
    assert stored(sessions) == ([], [])


def test_a_state_outlives_a_failure_that_is_tried_again(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
):
    sha256 = save(ledger, claim, 5, b"five")
    ledger.fail(claim, "system_error", "the trainer died", retry=True)
    assert stored(sessions) == ([sha256], [sha256])


def test_a_state_whose_bytes_are_damaged_is_not_gone_on_from(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
):
    sha256 = save(ledger, claim, 5, b"five")
    ledger.release(claim, "preempted")
    with sessions.begin() as session:
        damaged = {"state": "quarantined", "reason": "its bytes have another SHA-256."}
        session.execute(update(Artifact).where(Artifact.sha256 == sha256).values(damaged))
    assert a_claim(ledger).inputs.resume is None, "from the first step rather than not at all"
    with sessions.begin() as session:
        assert session.scalar(select(Job.step)) == 0
        events = select(JobEvent.data).where(JobEvent.type == "running")
        assert not any("resumed_from_step" in data for data in session.scalars(events))


def test_a_state_that_somebody_else_is_about_to_record_is_not_deleted(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
):
    save(ledger, claim, 4, b"four")
    with sessions.begin() as session:
        a_job(session)
    equal = a_claim(ledger)
    path = Path("training-4.safetensors")
    sha256 = ledger.put_artifact(equal, [b"four"]).sha256
    ledger.finish(claim)
    ledger.record(equal, [TrainingSaved(step=4, path=path)], {path: sha256})
    assert stored(sessions) == ([sha256], [sha256])


def test_an_attempt_that_computes_otherwise_than_its_predecessor_says_so(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
):
    def begun(lease: Claim, *, compiled: bool) -> None:
        environment = an_environment(compiled=compiled, platform=f"attempt {lease.attempt}")
        ledger.record(lease, [Started(environment=environment, replicates=2)], {})

    begun(claim, compiled=True)
    save(ledger, claim, 5, b"five")
    ledger.release(claim, "preempted")
    second = a_claim(ledger)
    begun(second, compiled=False)
    save(ledger, second, 9, b"nine")
    ledger.release(second, "preempted")
    begun(a_claim(ledger), compiled=False)
    with sessions.begin() as session:
        events = select(JobEvent).where(JobEvent.type == "computes_otherwise")
        (event,) = session.scalars(events)
        assert event.attempt == 2
        assert event.data == {"was": {"compiled": True}, "now": {"compiled": False}}
