"""What the latest run of a family on a queue measured of its machine."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.runs.events import Environment
from adaptlab_db.tables import AttemptRow, Job

LATEST_JOBS = 200
"""Number of jobs among which measurements are searched."""


def measured_machine(session: Session, queue: str, family: str) -> Environment | None:
    """Return the latest environment with the speed of a product.

    An import, which trains nothing, has one as well; a run on a GPU has none.
    """
    newest = (Job.created_at.desc(), Job.id.desc())
    latest = select(Job.id).order_by(*newest).limit(LATEST_JOBS).subquery()
    stored = session.scalar(
        select(AttemptRow.environment)
        .join(Job, Job.id == AttemptRow.job_id)
        .join(latest, latest.c.id == Job.id)
        .where(Job.queue == queue, Job.family == family)
        .where(AttemptRow.environment["bfloat16_cost"].astext.is_not(None))
        .order_by(AttemptRow.started_at.desc())
        .limit(1)
    )
    return None if stored is None else Environment.model_validate(stored)
