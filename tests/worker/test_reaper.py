"""The reaper: after an outage, heartbeats are awaited first."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_pretrain_spec, an_adapt_spec
from tests.outages import outage

from adaptlab_db.tables import Job
from adaptlab_services.outages import is_outage
from adaptlab_stack.servers import Servers
from adaptlab_worker.loop import reaper
from adaptlab_worker.loop.reaper import Reaper

Sessions = sessionmaker[Session]
INTERVAL = 5.0


class Clock:
    """A clock that advances on command."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Reaping:
    """A reaper that looks every five seconds of a clock of its own."""

    def __init__(self, sessions: Sessions, arm_seconds: float) -> None:
        self.clock = Clock()
        self.rung: list[Sequence[str]] = []
        self._reaper = Reaper(sessions, self.rung.append, INTERVAL, arm_seconds, self.clock)

    def look(self, times: int, apart: float = INTERVAL) -> None:
        for _ in range(times):
            self._reaper.look()
            self.clock.now += apart


@pytest.fixture
def lost(sessions: Sessions) -> UUID:
    """A running job whose lease has ended."""
    with sessions.begin() as session:
        job_id = a_job(session, a_pretrain_spec(), state="running")
        ago = func.clock_timestamp() - timedelta(seconds=1)
        session.execute(update(Job).where(Job.id == job_id).values(lease_expires_at=ago))
    return job_id


def renewed_until_now(sessions: Sessions, job_id: UUID) -> None:
    """Let a lease have ended only now."""
    with sessions.begin() as session:
        now = func.clock_timestamp()
        session.execute(update(Job).where(Job.id == job_id).values(lease_expires_at=now))


def state(sessions: Sessions, job_id: UUID) -> str:
    with sessions.begin() as session:
        return session.scalars(select(Job.state).where(Job.id == job_id)).one()


def test_a_reaper_takes_back_only_after_a_minute_of_its_own(sessions: Sessions, lost: UUID) -> None:
    reaping = Reaping(sessions, arm_seconds=60)
    reaping.look(12)  # at 0, 5, … 55 seconds
    assert state(sessions, lost) == "running"
    reaping.look(1)
    assert state(sessions, lost) == "queued"
    assert reaping.rung == [("cpu",)]


def test_a_reaper_rings_for_a_job_whose_base_model_is_there_unnoticed(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        waiting = a_job(session, an_adapt_spec(), state="waiting")
    reaping = Reaping(sessions, arm_seconds=0)
    reaping.look(2)
    assert state(sessions, waiting) == "queued"
    assert reaping.rung == [("cpu",)]


def test_an_outage_begins_the_minute_anew(
    sessions: Sessions, lost: UUID, servers: Servers, database_url: str
) -> None:
    reaping = Reaping(sessions, arm_seconds=60)
    reaping.look(11)
    with outage(servers.database_url, database_url):
        reaping.look(1)
    renewed_until_now(sessions, lost)
    reaping.look(12)
    assert state(sessions, lost) == "running"
    reaping.look(1)
    assert state(sessions, lost) == "queued"


@pytest.mark.parametrize("disarmed_by_all", [False, True])
def test_an_error_of_a_database_that_answers_does_not_begin_the_minute_anew(
    sessions: Sessions, lost: UUID, disarmed_by_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second case is what it would be if any error did."""
    if disarmed_by_all:
        monkeypatch.setattr(reaper, "is_outage", lambda _: True)  # pyright: ignore[reportUnknownLambdaType]
    reaping = Reaping(sessions, arm_seconds=60)
    reaping.look(12)
    renewed_until_now(sessions, lost)
    with refusing(sessions):
        reaping.look(3)
    assert state(sessions, lost) == "running"
    reaping.look(1)
    assert state(sessions, lost) == ("running" if disarmed_by_all else "queued")


@contextmanager
def refusing(sessions: Sessions) -> Generator[None]:
    """A database that can be read, and refuses all changes of state."""
    rename(sessions, "job_events", "elsewhere")
    try:
        yield
    finally:
        rename(sessions, "elsewhere", "job_events")


def rename(sessions: Sessions, table: str, name: str) -> None:
    with sessions.begin() as session:
        session.execute(text(f"ALTER TABLE {table} RENAME TO {name}"))


@pytest.mark.parametrize(
    ("answer", "is_away"),
    [
        (psycopg.OperationalError("connection refused"), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.CannotConnectNow(), True),
        (psycopg.errors.DiskFull(), True),
        (psycopg.errors.TooManyConnections(), True),
        (psycopg.errors.ReadOnlySqlTransaction(), True),
        (psycopg.errors.LockNotAvailable(), False),
        (psycopg.errors.DeadlockDetected(), False),
        (psycopg.errors.QueryCanceled(), False),
        (psycopg.errors.CheckViolation(), False),
        (psycopg.errors.UndefinedTable(), False),
    ],
)
def test_a_database_is_away_when_nobody_can_write(answer: psycopg.Error, is_away: bool) -> None:
    assert is_outage(DBAPIError("UPDATE jobs", None, answer)) is is_away


def test_a_reaper_that_slept_begins_the_minute_anew(sessions: Sessions, lost: UUID) -> None:
    reaping = Reaping(sessions, arm_seconds=60)
    reaping.look(11)
    reaping.clock.now += 600  # frozen, or the machine was suspended
    renewed_until_now(sessions, lost)
    reaping.look(12)
    assert state(sessions, lost) == "running"
    reaping.look(1)
    assert state(sessions, lost) == "queued"


def test_without_the_minute_an_outage_costs_a_job_its_attempt(
    sessions: Sessions, lost: UUID, servers: Servers, database_url: str
) -> None:
    reaping = Reaping(sessions, arm_seconds=0)
    with outage(servers.database_url, database_url):
        reaping.look(1)
    reaping.look(1)
    assert state(sessions, lost) == "queued"


@pytest.fixture
def lost_long_ago(sessions: Sessions, lost: UUID) -> UUID:
    """A running job whose lease ended long before the reaper began to look."""
    with sessions.begin() as session:
        ago = func.clock_timestamp() - timedelta(hours=1)
        session.execute(update(Job).where(Job.id == lost).values(lease_expires_at=ago))
    return lost


def test_a_lease_is_taken_back_although_interruptions_repeat(
    sessions: Sessions, lost_long_ago: UUID, servers: Servers, database_url: str
) -> None:
    """Every 40 seconds a fault: 30 seconds are reachable between two."""
    reaping = Reaping(sessions, arm_seconds=60)
    reaping.look(7)  # 30 seconds
    with outage(servers.database_url, database_url):
        reaping.look(1)
    reaping.look(6)  # 25 more
    assert state(sessions, lost_long_ago) == "running"
    reaping.look(1)
    assert state(sessions, lost_long_ago) == "queued", "65 seconds after the first look"


def test_a_lease_that_ended_in_the_interruption_waits_for_the_minute(
    sessions: Sessions, lost_long_ago: UUID, servers: Servers, database_url: str
) -> None:
    reaping = Reaping(sessions, arm_seconds=60)
    reaping.look(7)
    with outage(servers.database_url, database_url):
        reaping.look(1)
    renewed_until_now(sessions, lost_long_ago)
    reaping.look(12)
    assert state(sessions, lost_long_ago) == "running"
    reaping.look(1)
    assert state(sessions, lost_long_ago) == "queued"
