"""Permission to change a job or a study, for pages with buttons.

Each change checks it again.
"""

from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from adaptlab_db.tables import Job, Project, Study
from adaptlab_services.errors import Forbidden
from adaptlab_services.people import access


def may_change(session: Session, job_id: UUID) -> bool:
    """Return True if the caller may change an existing job.

    Changes are cancelling, pausing, resuming and retrying.
    """
    return _may_change(session, select(Job.owner_id, Job.project_id).where(Job.id == job_id))


def may_change_study(session: Session, study_id: UUID) -> bool:
    """Return True if the caller may cancel an existing study."""
    return _may_change(
        session, select(Study.owner_id, Study.project_id).where(Study.id == study_id)
    )


def may_delete(session: Session, project: str) -> bool:
    """Return True if the caller may delete jobs and studies of a project."""
    project_id = session.scalars(select(Project.id).where(Project.name == project)).one()
    try:
        access.check_admin(session, project_id)
    except Forbidden:
        return False
    return True


def _may_change(session: Session, owned: Select[int, int]) -> bool:
    row = session.execute(owned).one_or_none()
    if row is None:
        return False
    try:
        owner_id, project_id = row
        access.check_change(session, owner_id, project_id)
    except Forbidden:
        return False
    return True
