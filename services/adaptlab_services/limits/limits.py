"""The limit on an owner's jobs in the queue."""

from sqlalchemy import bindparam, func, select, text
from sqlalchemy.orm import Session

from adaptlab_db.job_states import PENDING_STATES
from adaptlab_db.tables import Job
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import LimitReached

_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('adaptlab.queued', :owner))")
_CLAIMS_IN_TURN = text(
    "SELECT pg_advisory_xact_lock(hashtextextended('adaptlab.reproductions.claim_verdicts', 0))"
)
_JOBS = Job.metadata.tables[Job.__tablename__]
# Built once, and on the table: built by the ORM for each request, it took a twentieth of the time
# of creating a job.
_HELD_BY = (
    select(func.count())
    .select_from(_JOBS)
    .where(_JOBS.c.owner_id == bindparam("owner"), _JOBS.c.state.in_(PENDING_STATES))
)


def check_queued(session: Session, owner_id: int, most: int | None) -> None:
    """Refuse this unit of work's jobs if the owner now has more than `most`.

    Call it when everything is written. Of two simultaneous requests, the second waits until the
    first has committed, and then counts its jobs too. Raises `LimitReached`.
    """
    if most is None:
        return
    owner = {"owner": owner_id}
    session.flush()  # only the ORM's own statements flush by themselves
    session.execute(_ONE_AT_A_TIME, owner)
    queued = session.execute(_HELD_BY, owner, execution_options=ACROSS_PROJECTS).scalar_one()
    if queued > most:
        raise LimitReached(queued, most)


def claim_in_turn(session: Session) -> None:
    """Block other claims until the unit of work ends, to count running jobs."""
    session.execute(_CLAIMS_IN_TURN)
