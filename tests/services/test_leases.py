"""Leases: claimed once, kept by heartbeats, lost for good, ended once."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from psycopg import Cursor
from sqlalchemy import event, func, select, text, update
from sqlalchemy.orm import InstrumentedAttribute
from tests import job_rows
from tests.job_rows import AGO, Sessions, change, event_types, job, new_job
from tests.ledgers import WAYS, ledger_by, only_beside_the_database
from tests.making import (
    a_base_model,
    a_claim,
    a_job,
    a_ledger,
    a_pretrain_spec,
    a_resolved_spec,
    a_worker,
    an_adapt_spec,
    keep_checkpoints,
)
from tests.watching import somebody_waits, until

from adaptlab.runs.events import Progress
from adaptlab_db import session as db_session
from adaptlab_db.session import close, session_factory
from adaptlab_db.tables import AttemptRow, Job, Worker
from adaptlab_services.errors import LeaseLost, LedgerUnreachable
from adaptlab_services.leases import lease_ends, leases
from adaptlab_services.leases.claiming import queues_with_work
from adaptlab_services.leases.leases import DatabaseLedger, Ledger
from adaptlab_services.leases.reaping import ReapedLeases, reap
from adaptlab_services.lifecycle import held_leases
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.lifecycle.transitions import append_event, transition
from adaptlab_services.settings import Settings


@pytest.fixture(params=WAYS)
def ledger(
    request: pytest.FixtureRequest, sessions: Sessions, settings: Settings
) -> Iterator[Ledger]:
    """A worker's door to jobs and results, of either kind."""
    with ledger_by(request.param, sessions, settings) as door:
        yield door


@pytest.fixture
def hasty_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are opened from now on wait briefly for a lock."""
    monkeypatch.setitem(db_session.LIMITS, "lock_timeout", "500ms")


def attempts(sessions: Sessions, job_id: UUID) -> list[tuple[int, str | None, str | None]]:
    rows = job_rows.attempts(sessions, job_id)
    return [(row.attempt, row.outcome, row.reason) for row in rows]


def seconds_until(sessions: Sessions, moment: InstrumentedAttribute[Any]) -> float:
    """From now, by the database's clock, to the only row's `moment`."""
    with sessions() as session:
        left = session.scalars(select(moment - func.clock_timestamp())).one()
    return left.total_seconds()


def request_cancel(sessions: Sessions, job_id: UUID) -> None:
    change(sessions, job_id, cancel_requested_at=func.clock_timestamp())


def expire(sessions: Sessions, job_id: UUID) -> None:
    change(sessions, job_id, lease_expires_at=AGO)


def take_back(sessions: Sessions) -> ReapedLeases:
    with sessions.begin() as session:
        return reap(session)


def make_due(sessions: Sessions, job_id: UUID) -> None:
    change(sessions, job_id, run_at=AGO)


# --- claiming -------------------------------------------------------------------------------------


def test_a_claim_tells_the_worker_what_to_do(sessions: Sessions, ledger: DatabaseLedger) -> None:
    spec = an_adapt_spec(resources={"max_seconds": 77})
    with sessions.begin() as session:
        a_base_model(session)
        job_id = a_job(session, spec)
    claim = a_claim(ledger)
    assert (claim.job_id, claim.attempt, claim.max_seconds) == (job_id, 1, 77)
    assert claim.resolved_spec == a_resolved_spec(spec)
    assert len(claim.inputs.bases) == 2
    fetched = [b"".join(ledger.fetch_artifact(claim, b.sha256)) for b in claim.inputs.bases]
    assert fetched == [b"weights of seed 0", b"weights of seed 1"]


def test_a_job_that_is_claimed_runs_and_its_base_stays_as_it_was(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    with sessions.begin() as session:
        base = a_base_model(session)
        job_id = a_job(session)
    worker = a_worker(ledger)
    assert ledger.claim(worker, ["cpu"]) is not None
    row = job(sessions, job_id)
    assert (row.state, row.attempt, row.worker_id) == ("running", 1, worker)
    assert row.started_at is not None
    assert attempts(sessions, job_id) == [(1, None, None)]
    assert event_types(sessions, job_id) == ["running"]
    assert job(sessions, base).state == "succeeded"


def test_a_pretraining_job_has_no_bases(sessions: Sessions, ledger: DatabaseLedger) -> None:
    new_job(sessions, spec=a_pretrain_spec())
    assert a_claim(ledger).inputs.bases == ()


@pytest.mark.parametrize(
    ("resources", "strict"),
    [({}, False), ({"self_fence": "ride_through"}, False), ({"self_fence": "strict"}, True)],
)
def test_a_claim_says_whether_the_run_must_end_before_its_lease(
    sessions: Sessions, ledger: DatabaseLedger, resources: dict[str, str], strict: bool
) -> None:
    new_job(sessions, spec=a_pretrain_spec(resources=resources))
    assert a_claim(ledger).strict is strict


def test_a_job_of_another_queue_not_due_or_cancelled_is_left(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    new_job(sessions, queue="gpu")
    new_job(sessions, run_at=func.clock_timestamp() + timedelta(hours=1))
    new_job(sessions, cancel_requested_at=func.clock_timestamp())
    new_job(sessions, state="waiting")
    assert ledger.claim(a_worker(ledger), ["cpu"]) is None
    with sessions() as session:
        assert queues_with_work(session) == ("gpu",)


def test_jobs_are_claimed_by_priority_then_fairness_then_age(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    new_job(sessions, owner="greedy", state="running")
    greedy = new_job(sessions, owner="greedy", created_at=AGO)
    modest_late = new_job(sessions, owner="modest")
    modest_early = new_job(sessions, owner="modest", created_at=AGO)
    urgent = new_job(sessions, owner="greedy", priority=9)
    worker = a_worker(ledger)
    order: list[UUID] = []
    while (claim := ledger.claim(worker, ["cpu"])) is not None:
        order.append(claim.job_id)
        ledger.finish(claim)
    assert order == [urgent, modest_early, modest_late, greedy]


def test_a_spec_that_cannot_be_read_fails_and_does_not_block_the_queue(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    broken = new_job(sessions, resolved_spec={"spec_version": 99}, priority=9)
    sound = new_job(sessions)
    assert a_claim(ledger).job_id == sound
    assert (job(sessions, broken).state, job(sessions, broken).reason) == ("failed", "system_error")
    assert attempts(sessions, broken) == [(1, "failed", "system_error")]


@only_beside_the_database
def test_a_claimer_does_not_wait_for_another(sessions: Sessions, ledger: DatabaseLedger) -> None:
    first, second = new_job(sessions, created_at=AGO), new_job(sessions)
    with sessions.begin() as slow:
        slow.execute(select(Job.id).where(Job.id == first).with_for_update())
        assert a_claim(ledger).job_id == second
    assert a_claim(ledger).job_id == first


def test_eight_workers_claim_fifty_jobs_once_each(sessions: Sessions) -> None:
    with sessions.begin() as session:
        created = {a_job(session, owner=f"owner-{n % 3}") for n in range(50)}
    start = threading.Barrier(8)

    def work(_: int) -> list[UUID]:
        ledger = a_ledger(sessions)
        worker = a_worker(ledger)
        taken: list[UUID] = []
        start.wait()
        while (claim := ledger.claim(worker, ["cpu"])) is not None:
            assert claim.attempt == 1
            taken.append(claim.job_id)
        return taken

    with ThreadPoolExecutor(8) as pool:
        taken = [job_id for jobs in pool.map(work, range(8)) for job_id in jobs]
    assert len(taken) == 50
    assert set(taken) == created


# --- keeping --------------------------------------------------------------------------------------


def test_a_heartbeat_renews_the_lease_by_the_databases_clock(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    expire(sessions, job_id)
    assert ledger.heartbeat(claim, 3) == "continue"
    assert 0 < seconds_until(sessions, Job.lease_expires_at) <= 30
    with sessions() as session:  # by one clock, however much later it is looked at
        lasts = session.scalars(select(Job.lease_expires_at - Job.heartbeat_at)).one()
    assert 29 < lasts.total_seconds() < 31
    assert job(sessions, job_id).step == 3
    assert ledger.heartbeat(claim, 2) == "continue"
    assert job(sessions, job_id).step == 3


@only_beside_the_database
def test_a_heartbeat_is_one_message(sessions: Sessions, ledger: DatabaseLedger) -> None:
    """Every worker sends one every few seconds, whatever else it does."""
    new_job(sessions)
    claim = a_claim(ledger)
    alone: list[bool] = []

    def note(_: object, cursor: Cursor, *__: object) -> None:
        alone.append(cursor.connection.autocommit)

    event.listen(sessions.kw["bind"], "before_cursor_execute", note)
    ledger.heartbeat(claim, 1)
    ledger.record(claim, [Progress(phase="training", step=2, total=3)])
    event.remove(sessions.kw["bind"], "before_cursor_execute", note)
    assert alone[0]
    assert set(alone[1:]) == {False}, "a batch is kept or dropped as a whole"


def test_the_workers_clock_does_not_matter(
    sessions: Sessions, ledger: DatabaseLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose clock is a year ahead gets the same lease as all others."""
    job_id = new_job(sessions)
    ahead = time.time() + 365 * 24 * 3600
    monkeypatch.setattr(time, "time", lambda: ahead)
    claim = a_claim(ledger)
    ledger.heartbeat(claim, 0)
    monkeypatch.undo()
    end = job(sessions, job_id).lease_expires_at
    assert end is not None
    assert end - datetime.now(UTC) < timedelta(hours=1)


def test_a_heartbeat_says_stop_when_the_job_is_cancelled(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    request_cancel(sessions, job_id)
    assert ledger.heartbeat(claim, 0) == "stop"
    ledger.stopped(claim)
    assert (job(sessions, job_id).state, job(sessions, job_id).reason) == (
        "cancelled",
        "cancelled_by_user",
    )
    assert attempts(sessions, job_id) == [(1, "cancelled", "cancelled_by_user")]


def test_a_heartbeat_keeps_the_worker_known(sessions: Sessions, ledger: DatabaseLedger) -> None:
    new_job(sessions)
    claim = a_claim(ledger)
    with sessions.begin() as session:
        session.execute(update(Worker).values(heartbeat_at=AGO))
    ledger.heartbeat(claim, 0)
    assert seconds_until(sessions, Worker.heartbeat_at) > -60


# --- losing ---------------------------------------------------------------------------------------


def without_attempt(claim: Claim) -> list[object]:
    """The fence without its token, as if claims had none."""
    return [Job.id == claim.job_id, Job.state == "running"]


WRITES = {
    "heartbeat": lambda ledger, claim: ledger.heartbeat(claim, 99),
    "finish": lambda ledger, claim: ledger.finish(claim),
    "fail": lambda ledger, claim: ledger.fail(claim, "diverged", "stale", retry=False),
    "retry": lambda ledger, claim: ledger.fail(claim, "system_error", "stale", retry=True),
    "release": lambda ledger, claim: ledger.release(claim, "preempted"),
    "stopped": lambda ledger, claim: ledger.stopped(claim),
    "put_artifact": lambda ledger, claim: ledger.put_artifact(claim, [b"stale"]),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_that_lost_its_lease_changes_nothing(
    sessions: Sessions, ledger: DatabaseLedger, write: str
) -> None:
    job_id = new_job(sessions)
    stale = a_claim(ledger)
    expire(sessions, job_id)
    take_back(sessions)
    with pytest.raises(LeaseLost):
        WRITES[write](ledger, stale)
    make_due(sessions, job_id)
    assert a_claim(ledger).attempt == 2
    before = (job(sessions, job_id).event_sequence, attempts(sessions, job_id))
    with pytest.raises(LeaseLost):
        WRITES[write](ledger, stale)
    row = job(sessions, job_id)
    assert (row.state, row.step, row.attempt) == ("running", 0, 2)
    assert (row.event_sequence, attempts(sessions, job_id)) == before


@pytest.mark.long("ablation of a defence", but=1)
@pytest.mark.parametrize("write", [write for write in WRITES if write != "put_artifact"])
def test_without_the_fencing_token_a_stale_write_is_accepted(
    sessions: Sessions, ledger: DatabaseLedger, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = new_job(sessions)
    stale = a_claim(ledger)
    expire(sessions, job_id)
    take_back(sessions)
    make_due(sessions, job_id)
    a_claim(ledger)
    monkeypatch.setattr(leases, "held", without_attempt)
    WRITES[write](ledger, stale)
    row = job(sessions, job_id)
    assert (row.state, row.step) != ("running", 0)


@only_beside_the_database
def test_reaping_returns_a_job_until_its_attempts_are_spent(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions, attempts_max=2)
    for expected in ("queued", "failed"):
        make_due(sessions, job_id)
        a_claim(ledger)
        assert take_back(sessions).count == 0
        expire(sessions, job_id)
        reaped = take_back(sessions)
        assert (reaped.count, reaped.queues) == (1, ("cpu",) if expected == "queued" else ())
        row = job(sessions, job_id)
        assert (row.state, row.reason) == (expected, "worker_lost")
    assert attempts(sessions, job_id) == [(1, "lost", "worker_lost"), (2, "lost", "worker_lost")]
    assert event_types(sessions, job_id) == ["running", "queued", "running", "failed"]


def test_a_reaped_job_that_was_cancelled_stays_cancelled(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    request_cancel(sessions, job_id)
    expire(sessions, job_id)
    take_back(sessions)
    assert job(sessions, job_id).state == "cancelled"
    with pytest.raises(LeaseLost):
        ledger.stopped(claim)


@only_beside_the_database
def test_a_reaped_job_waits_longer_each_time(sessions: Sessions, ledger: DatabaseLedger) -> None:
    job_id = new_job(sessions, attempts_max=50)
    waits: list[float] = []
    for _ in range(10):
        make_due(sessions, job_id)
        a_claim(ledger)
        expire(sessions, job_id)
        take_back(sessions)
        with sessions() as session:
            ended = select(func.max(AttemptRow.ended_at)).scalar_subquery()
            waits.append(session.scalars(select(Job.run_at - ended)).one().total_seconds())
    expected = [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert waits == pytest.approx(expected, abs=1)
    assert all(later >= earlier - 1 for earlier, later in pairwise(waits))


@only_beside_the_database
def test_five_reapers_at_once_take_each_lease_back_once(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    ids = [new_job(sessions) for _ in range(20)]
    worker = a_worker(ledger)
    for _ in ids:
        ledger.claim(worker, ["cpu"])
    with sessions.begin() as session:
        session.execute(update(Job).values(lease_expires_at=AGO))
    start = threading.Barrier(5)

    def take_all(_: int) -> int:
        start.wait()
        return take_back(sessions).count

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(take_all, range(5))) == 20
    assert all(event_types(sessions, job_id) == ["running", "queued"] for job_id in ids)


def test_a_reaper_that_meets_a_heartbeat_lets_the_job_be(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    """The heartbeat holds the row when the reaper looks, then renews it."""
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    expire(sessions, job_id)
    with sessions.begin() as session:
        session.execute(update(Job).where(*held_leases.held(claim)).values(lease_expires_at=AGO))
        assert take_back(sessions).count == 0
    assert ledger.heartbeat(claim, 1) == "continue"
    assert take_back(sessions).count == 0


def test_a_heartbeat_that_meets_a_reaper_finds_the_lease_lost(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    expire(sessions, job_id)
    with ThreadPoolExecutor(1) as pool, sessions.begin() as session:
        assert reap(session).count == 1
        heartbeat = pool.submit(ledger.heartbeat, claim, 1)
        until(lambda: somebody_waits(sessions), "a heartbeat that waits")
        assert not heartbeat.done()
        session.commit()
        with pytest.raises(LeaseLost):
            heartbeat.result()


@pytest.mark.long("chaos at length")
@only_beside_the_database
def test_reapers_and_heartbeats_at_random_never_disagree(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    """Either the heartbeat is in time and the job runs, or it is not."""
    for turn in range(30):
        # A queue of its own, because the reaped jobs of earlier turns become due meanwhile.
        job_id = new_job(sessions, queue=f"turn-{turn}")
        claim = a_claim(ledger, [f"turn-{turn}"])
        expire(sessions, job_id)
        with ThreadPoolExecutor(2) as pool:
            heartbeat = pool.submit(ledger.heartbeat, claim, 1)
            reaper = pool.submit(take_back, sessions)
        is_alive = heartbeat.exception() is None
        assert is_alive or isinstance(heartbeat.exception(), LeaseLost)
        assert reaper.result().count == (0 if is_alive else 1)
        assert job(sessions, job_id).state == ("running" if is_alive else "queued")
        if is_alive:
            ledger.finish(claim)


@only_beside_the_database
def test_a_frozen_workers_lock_is_taken_away(sessions: Sessions, ledger: DatabaseLedger) -> None:
    """A worker paused in a transaction holds its row, but not for long.

    Reapers skip the row meanwhile.
    """
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    expire(sessions, job_id)
    with sessions() as frozen:
        frozen.execute(update(Job).where(*held_leases.held(claim)).values(step=5))
        assert take_back(sessions).count == 0
        # The last thing that is heard of it: its time begins here.
        frozen.execute(text("SET LOCAL idle_in_transaction_session_timeout = '200ms'"))
        until(lambda: take_back(sessions).count == 1, "a reaper that gets the row")
        frozen.invalidate()
    assert job(sessions, job_id).step == 0


# --- ending ---------------------------------------------------------------------------------------


def test_a_finished_job_has_succeeded(sessions: Sessions, ledger: DatabaseLedger) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    assert ledger.finish(claim) == ()
    row = job(sessions, job_id)
    assert (row.state, row.reason, row.error) == ("succeeded", None, None)
    assert row.finished_at is not None
    assert attempts(sessions, job_id) == [(1, "succeeded", None)]


@pytest.mark.parametrize("write", ["finish", "fail", "retry", "release", "stopped"])
def test_an_end_whose_answer_was_lost_may_be_repeated(
    sessions: Sessions, ledger: DatabaseLedger, write: str
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    WRITES[write](ledger, claim)
    before = job(sessions, job_id).event_sequence
    assert WRITES[write](ledger, claim) == ()
    assert job(sessions, job_id).event_sequence == before


def test_finishing_loses_to_an_earlier_request_to_cancel(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    request_cancel(sessions, job_id)
    ledger.finish(claim)
    assert job(sessions, job_id).state == "cancelled"
    assert event_types(sessions, job_id) == ["running", "cancelled"]


def cancel(sessions: Sessions, job_id: UUID) -> None:
    """The API's change of a job: a flag if it runs, the state if it waits."""
    with sessions.begin() as session:
        state = session.scalars(select(Job.state).where(Job.id == job_id).with_for_update()).one()
        if state == "running":
            session.execute(
                update(Job)
                .where(Job.id == job_id)
                .values(cancel_requested_at=func.clock_timestamp())
            )
            append_event(session, job_id, "cancel_requested", {})
        else:
            transition(session, job_id, to="cancelled", from_states=("queued",))


@only_beside_the_database
def test_cancelling_races_finishing_and_there_is_one_end(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    for turn in range(40):
        job_id = new_job(sessions)
        claim = a_claim(ledger)
        race = [lambda: cancel(sessions, job_id), lambda: ledger.finish(claim)]  # noqa: B023
        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(side) for side in (race[turn % 2], race[1 - turn % 2])]:
                future.result()
        state = job(sessions, job_id).state
        types = event_types(sessions, job_id)
        assert state in ("succeeded", "cancelled")
        assert types[-1] == state
        assert sum(kind in ("succeeded", "failed", "cancelled") for kind in types) == 1


def test_a_failure_that_may_pass_is_tried_again(
    sessions: Sessions, ledger: DatabaseLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_ends, "FIRST_BACKOFF", 200)  # not over before it is looked at
    job_id = new_job(sessions, attempts_max=2)
    ledger.fail(a_claim(ledger), "system_error", "The disk was full.", retry=True)
    row = job(sessions, job_id)
    assert (row.state, row.reason, row.error) == ("queued", "system_error", "The disk was full.")
    assert ledger.claim(a_worker(ledger), ["cpu"]) is None
    make_due(sessions, job_id)
    second = a_claim(ledger)
    assert second.attempt == 2
    assert (job(sessions, job_id).reason, job(sessions, job_id).error) == (None, None)
    ledger.fail(second, "system_error", "The disk was full again.", retry=True)
    assert job(sessions, job_id).state == "failed"
    assert [a[1] for a in attempts(sessions, job_id)] == ["failed", "failed"]


def test_a_failure_that_will_not_pass_is_final(sessions: Sessions, ledger: DatabaseLedger) -> None:
    job_id = new_job(sessions)
    ledger.fail(a_claim(ledger), "diverged", "Every replicate diverged.", retry=False)
    row = job(sessions, job_id)
    assert (row.state, row.reason, row.attempt) == ("failed", "diverged", 1)


def test_a_cancelled_job_is_not_tried_again(sessions: Sessions, ledger: DatabaseLedger) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    request_cancel(sessions, job_id)
    ledger.fail(claim, "system_error", "killed", retry=True)
    assert job(sessions, job_id).state == "cancelled"


def test_a_released_job_goes_on_and_the_attempt_does_not_count(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions, attempts_max=1)
    for attempt in (1, 2, 3):
        claim = a_claim(ledger)
        assert claim.attempt == attempt
        assert ledger.release(claim, "preempted") == ("cpu",)
        assert job(sessions, job_id).state == "queued"
    ledger.fail(a_claim(ledger), "system_error", "now for real", retry=True)
    assert job(sessions, job_id).state == "failed"
    assert [a[1] for a in attempts(sessions, job_id)] == ["released"] * 3 + ["failed"]


@only_beside_the_database
def test_releases_do_not_raise_the_limit_for_ever(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions, attempts_max=lease_ends.MOST_ATTEMPTS)
    ledger.release(a_claim(ledger), "preempted")
    assert job(sessions, job_id).attempts_max == lease_ends.MOST_ATTEMPTS


def test_a_finished_base_model_wakes_the_jobs_that_wait(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    with sessions.begin() as session:
        a_base_model(session, state="queued")
        spec = an_adapt_spec(resources={"queue": "gpu"})
        waiting = a_job(session, spec, state="waiting")
    claim = a_claim(ledger)
    keep_checkpoints(ledger, claim)
    assert ledger.finish(claim) == ("gpu",)
    assert job(sessions, waiting).state == "queued"


@pytest.mark.parametrize("write", ["fail", "stopped"])
def test_a_base_model_that_is_not_coming_fails_the_jobs_that_wait(
    sessions: Sessions, ledger: DatabaseLedger, write: str
) -> None:
    with sessions.begin() as session:
        a_base_model(session, state="queued")
        waiting = a_job(session, state="waiting")
    WRITES[write](ledger, a_claim(ledger))
    row = job(sessions, waiting)
    assert (row.state, row.reason) == ("failed", "base_model_failed")


@only_beside_the_database
def test_a_base_model_whose_worker_is_lost_too_often_fails_the_jobs_that_wait(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    with sessions.begin() as session:
        base = a_base_model(session, state="queued", attempts_max=1)
        waiting = a_job(session, state="waiting")
    a_claim(ledger)
    expire(sessions, base)
    take_back(sessions)
    assert job(sessions, waiting).state == "failed"


# --- the database is away -------------------------------------------------------------------------


def test_a_database_that_is_away_may_be_asked_again() -> None:
    factory = session_factory("postgresql://lab@127.0.0.1:1/adaptlab")
    with pytest.raises(LedgerUnreachable):
        a_ledger(factory).register_worker("laptop", 1, ["cpu"])
    close(factory)


@pytest.mark.usefixtures("hasty_locks")
def test_a_row_that_stays_locked_may_be_asked_for_again(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    new_job(sessions)
    claim = a_claim(ledger)
    with sessions.begin() as session:
        session.execute(select(Job.id).with_for_update())
        with pytest.raises(LedgerUnreachable, match=r"lock timeout|did not answer in time"):
            ledger.heartbeat(claim, 1)
    assert ledger.heartbeat(claim, 1) == "continue"
