"""Warnings about bfloat16 on queues where runs measured that it is slower."""

from collections.abc import Iterable

from sqlalchemy import Double, select
from sqlalchemy.orm import Session

from adaptlab.specs.resolved import Resolved
from adaptlab_db.tables import AttemptRow, Job

LATEST_JOBS = 200
"""Number of jobs among which measurements are searched."""


def warnings(session: Session, jobs: Iterable[tuple[Resolved, str]]) -> tuple[str, ...]:
    """Return a warning per queue and family on which bfloat16 was slower.

    `jobs` are given with their queues. Only those that ask for bfloat16 are looked at.
    """
    asked = {(queue, str(job.family.name)) for job, queue in jobs if job.precision == "bfloat16"}
    found: list[str] = []
    for queue, family in sorted(asked):
        cost = _latest(session, queue, family)
        if cost is not None and cost > 1:
            found.append(
                f"In the latest run of {family} on the queue {queue!r}, a matrix product took "
                f"{cost:.3g} times as long in bfloat16 as in float32. Use the precision float32, "
                "or auto, which chooses the faster one."
            )
    return tuple(found)


def _latest(session: Session, queue: str, family: str) -> float | None:
    """Return what the latest run of a family on a queue has measured."""
    newest = (Job.created_at.desc(), Job.id.desc())
    latest = select(Job.id).order_by(*newest).limit(LATEST_JOBS).subquery()
    cost = AttemptRow.environment["bfloat16_cost"].astext.cast(Double)
    return session.scalar(
        select(cost)
        .join(Job, Job.id == AttemptRow.job_id)
        .join(latest, latest.c.id == Job.id)
        .where(Job.queue == queue, Job.family == family, cost.is_not(None))
        .order_by(AttemptRow.started_at.desc())
        .limit(1)
    )
