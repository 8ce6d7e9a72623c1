"""Whether the asker may change a job, for those who show buttons; the changes check it again."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab_db.tables import Job
from adaptlab_services import access
from adaptlab_services.errors import Forbidden


def may_change(session: Session, job_id: UUID) -> bool:
    """Whether the asker may cancel, pause, resume or retry this job; False for no such job."""
    found = session.execute(
        select(Job.owner_id, Job.project_id).where(Job.id == job_id)
    ).one_or_none()
    if found is None:
        return False
    try:
        access.check_change(session, found.owner_id, found.project_id)
    except Forbidden:
        return False
    return True
