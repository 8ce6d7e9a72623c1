"""The lock under which studies are given jobs, or lose them, one unit of work at a time."""

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

KEY = 7_240_017  # no other advisory lock of the server has this number
LONGEST_WAIT = "20s"


def take(session: Session) -> None:
    """Let nobody else give studies jobs, or take them, until this unit of work ends.

    Two studies made at once would not see each other's jobs and run them twice, a study could be
    given a job that is being cancelled, and both would lock the jobs in an order of their own.
    """
    session.execute(text(f"SET LOCAL lock_timeout = '{LONGEST_WAIT}'"))
    session.execute(select(func.pg_advisory_xact_lock(KEY)))
    session.execute(text("SET LOCAL lock_timeout TO DEFAULT"))
