"""Whether a job is foreseen to end within the time that its worker has left."""

from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import AdaptlabError
from adaptlab.specs.resolved import readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.tables import Job, TrainingState
from adaptlab_services.jobs import estimates

SAFETY = 1.4
"""Of eight measured second runs of a kind none took longer than so many times its estimate."""


def ends_within(session: Session, job_id: UUID, seconds: float) -> bool:
    """Whether the job should end in so many seconds; what was saved of it needs no time again.

    A spec that cannot be read counts as quick: whoever takes the job finds out and fails it.
    """
    row = session.execute(
        select(Job.resolved_spec, Job.queue, Job.total_steps, TrainingState.step)
        .outerjoin(TrainingState, TrainingState.job_id == Job.id)
        .where(Job.id == job_id)
    ).one()
    try:
        spec = readable(ResolvedSpec.model_validate(row.resolved_spec))
        foreseen = estimates.estimate(session, spec, row.queue).seconds
    except (AdaptlabError, ValidationError):
        return True
    saved = min((row.step or 0) / max(row.total_steps, 1), 1.0)
    return SAFETY * foreseen * (1 - saved) <= seconds
