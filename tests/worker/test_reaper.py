"""The reaper: after an outage those who still train are heard before anything is taken away."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec
from tests.outages import outage

from adaptlab_db.tables import Job
from adaptlab_stack.servers import Servers
from adaptlab_worker.reaper import Reaper

Sessions = sessionmaker[Session]
INTERVAL = 5.0


class Clock:
    """Goes on when it is told to."""

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


def test_an_outage_begins_the_minute_anew(
    sessions: Sessions, lost: UUID, servers: Servers, database_url: str
) -> None:
    reaping = Reaping(sessions, arm_seconds=60)
    reaping.look(11)
    with outage(servers.database_url, database_url):
        reaping.look(1)
    reaping.look(12)
    assert state(sessions, lost) == "running"
    reaping.look(1)
    assert state(sessions, lost) == "queued"


def test_a_reaper_that_slept_begins_the_minute_anew(sessions: Sessions, lost: UUID) -> None:
    reaping = Reaping(sessions, arm_seconds=60)
    reaping.look(11)
    reaping.clock.now += 600  # frozen, or the machine was suspended
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
