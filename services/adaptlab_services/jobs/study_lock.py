"""The lock for adding jobs to studies and removing them.

One unit of work holds it at a time.
"""

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

KEY = 7_240_017  # no other advisory lock of the server has this number
LONGEST_WAIT = "20s"


def take(session: Session) -> None:
    """Take the lock until this unit of work ends.

    Without it, two studies created at once would not see each other's jobs and run them twice. A
    study could also get a job that is being cancelled, and two could deadlock on their jobs.
    """
    session.execute(text(f"SET LOCAL lock_timeout = '{LONGEST_WAIT}'"))
    session.execute(select(func.pg_advisory_xact_lock(KEY)))
    session.execute(text("SET LOCAL lock_timeout TO DEFAULT"))
