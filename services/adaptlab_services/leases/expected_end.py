"""Prediction of a job's end, for workers with limited time."""

from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import AdaptlabError
from adaptlab.specs.resolved import readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.tables import Job, TrainingStateRow
from adaptlab_services.jobs import estimates

SAFETY = 1.4
"""Factor on estimates: none of eight measured second runs of a kind took longer than this."""


def ends_within(session: Session, job_id: UUID, seconds: float) -> bool:
    """Return True if the job should end within `seconds`.

    Saved steps need no time again. A spec that cannot be read counts as fast, because the worker
    that claims the job fails it.
    """
    row = session.execute(
        select(Job.resolved_spec, Job.queue, Job.total_steps, TrainingStateRow.step)
        .outerjoin(TrainingStateRow, TrainingStateRow.job_id == Job.id)
        .where(Job.id == job_id)
    ).one()
    try:
        spec = readable(ResolvedSpec.model_validate(row.resolved_spec))
        estimated = estimates.estimate(session, spec, row.queue).seconds
    except (AdaptlabError, ValidationError):
        return True
    saved = min((row.step or 0) / max(row.total_steps, 1), 1.0)
    return SAFETY * estimated * (1 - saved) <= seconds
