"""Figures about the whole server, and what is counted of attempts."""

from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_claim, a_job, a_ledger, a_worker

from adaptlab_db.tables import CLAIM_BOUNDS, Artifact, AttemptCount, AttemptRow, Job, Worker
from adaptlab_services.leases.reaping import reap
from adaptlab_services.server import operations
from adaptlab_services.server.operations import Operations

Sessions = sessionmaker[Session]


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def counted(sessions: Sessions) -> dict[tuple[str, str], int]:
    with sessions.begin() as session:
        rows = operations.attempt_figures(session)
    return {(row.outcome, row.reason): row.attempts for row in rows}


def new_jobs(sessions: Sessions, count: int, **columns: Any) -> None:
    with sessions.begin() as session:
        for _ in range(count):
            a_job(session, **columns)


def test_every_end_of_an_attempt_is_counted_once(sessions: Sessions) -> None:
    ledger = a_ledger(sessions)
    new_jobs(sessions, 4)
    ledger.finish(a_claim(ledger))
    ledger.fail(a_claim(ledger), "out_of_memory", "too large", retry=False)
    ledger.release(a_claim(ledger), "preempted")
    assert counted(sessions) == {
        ("succeeded", ""): 1,
        ("failed", "out_of_memory"): 1,
        ("released", "preempted"): 1,
    }
    a_claim(ledger)  # runs, so it is not counted
    assert sum(counted(sessions).values()) == 3


def test_lost_leases_are_counted(sessions: Sessions) -> None:
    ledger = a_ledger(sessions)
    new_jobs(sessions, 3)
    for _ in range(3):
        a_claim(ledger)
    with sessions.begin() as session:
        past = func.clock_timestamp() - func.make_interval(0, 0, 0, 1)
        session.execute(update(Job).values(lease_expires_at=past))
    with sessions.begin() as session:
        assert reap(session).count == 3
    assert counted(sessions) == {("lost", "worker_lost"): 3}


def test_what_is_rolled_back_is_not_counted(sessions: Sessions) -> None:
    ledger = a_ledger(sessions)
    new_jobs(sessions, 1)
    a_claim(ledger)
    with sessions() as session:
        end = {"outcome": "failed", "ended_at": func.clock_timestamp()}
        session.execute(update(AttemptRow).values(end))
        session.rollback()
    assert counted(sessions) == {}


def test_deleted_jobs_stay_counted(sessions: Sessions) -> None:
    ledger = a_ledger(sessions)
    new_jobs(sessions, 1)
    ledger.finish(a_claim(ledger))
    with sessions.begin() as session:
        session.execute(delete(Job))
        assert session.scalar(select(func.count()).select_from(AttemptRow)) == 0
    assert counted(sessions) == {("succeeded", ""): 1}


def test_counts_of_several_connections_add_up(sessions: Sessions) -> None:
    rows = [
        {"outcome": "lost", "reason": "worker_lost", "shard": shard, "attempts": 2}
        for shard in range(16)
    ]
    with sessions.begin() as session:
        session.execute(insert(AttemptCount), rows)
    assert counted(sessions) == {("lost", "worker_lost"): 32}


@pytest.mark.parametrize("place", range(len(CLAIM_BOUNDS) + 1))
def test_a_wait_is_counted_between_its_bounds(sessions: Sessions, place: int) -> None:
    waited = ((0.0, *CLAIM_BOUNDS)[place] + (*CLAIM_BOUNDS, 200_000.0)[place]) / 2
    with sessions.begin() as session:
        job = a_job(session)
        early = func.now() - text(f"interval '{waited} seconds'")
        session.execute(update(Job).values(created_at=early, run_at=early))
        row = {"job_id": job, "attempt": 1, "worker_id": job, "started_at": func.now()}
        session.execute(insert(AttemptRow).values(row))
    with sessions.begin() as session:
        (figures,) = operations.claim_figures(session)
    assert figures.queue == "cpu"
    assert [count for count in figures.buckets if count] == [1]
    assert figures.buckets[place] == 1
    assert figures.seconds == pytest.approx(waited)


def test_a_job_waits_from_when_it_could_be_claimed(sessions: Sessions) -> None:
    ledger = a_ledger(sessions)
    new_jobs(sessions, 1)
    first = a_claim(ledger)
    with sessions.begin() as session:
        long_ago = func.clock_timestamp() - func.make_interval(0, 0, 0, 3)
        session.execute(update(Job).values(created_at=long_ago, run_at=long_ago))
    ledger.release(first, "preempted")  # queued again just now, after three days
    a_claim(ledger)
    with sessions.begin() as session:
        (figures,) = operations.claim_figures(session)
    assert sum(figures.buckets) == 2
    assert figures.seconds < 60


def test_figures_are_read_again_after_a_while(sessions: Sessions) -> None:
    clock = Clock()
    figures = Operations(sessions, clock)
    new_jobs(sessions, 1)
    assert figures.figures().queues[0].queued == 1
    new_jobs(sessions, 1)
    with sessions.begin() as session:
        session.add(Artifact(sha256="0" * 64, size=7))
    clock.now += operations.KEPT_SECONDS - 0.1
    assert figures.figures().queues[0].queued == 1
    clock.now += 0.2
    assert figures.figures().queues[0].queued == 2
    assert figures.figures().artifacts == ()
    clock.now += operations.ARTIFACTS_KEPT_SECONDS
    (share,) = figures.figures().artifacts
    assert (share.store, share.state, share.artifacts, share.bytes) == ("postgres", "ready", 1, 7)


def test_a_load_that_cannot_be_read_is_left_out(sessions: Sessions) -> None:
    worker = a_worker(a_ledger(sessions))
    with sessions.begin() as session:
        session.execute(update(Worker).values(load={"memory": "of another version"}))
        (figures,) = operations.worker_figures(session)
    assert (figures.id, figures.load) == (worker, None)
