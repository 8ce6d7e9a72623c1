"""What a database is sent, and who waits in it, seen from outside."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session, sessionmaker


@contextmanager
def statements(sessions: sessionmaker[Session] | None = None) -> Iterator[list[str]]:
    """The statements sent meanwhile, each once however many rows it is given.

    Of `sessions` alone; of every engine of this process without it.
    """
    sent: list[str] = []

    def keep(_: object, __: object, statement: str, *___: object) -> None:
        sent.append(statement)

    engine = Engine if sessions is None else sessions.kw["bind"]
    event.listen(engine, "before_cursor_execute", keep)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", keep)


def of_jobs(sent: list[str]) -> list[str]:
    """The statements about jobs and results, without look-ups of users."""
    about_jobs = [one for one in sent if "jobs" in one or "attention" in one or "studies" in one]
    return [one for one in about_jobs if "tokens.user_id" not in one]


def until(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> float:
    """Wait for something that is on its way; returns how long it took."""
    started = time.monotonic()
    while not holds():
        waited = time.monotonic() - started
        assert waited < seconds, f"there was no {what} in {seconds:g} s"
        # Between two looks; the loop ends by what it waits for. A look is often a query, and many
        # of them take the processor from what is waited for.
        time.sleep(min(0.005 + waited / 20, 0.03))
    return time.monotonic() - started


def nobody_works(sessions: sessionmaker[Session]) -> bool:
    """Return True if every other connection to this database is idle."""
    working = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'"
    )
    with sessions.begin() as session:
        return session.execute(working).scalar_one() == 0


def somebody_waits(sessions: sessionmaker[Session]) -> bool:
    """Return True if a transaction waits for another one's lock."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with sessions.begin() as session:
        return session.execute(waiting).scalar_one() > 0
