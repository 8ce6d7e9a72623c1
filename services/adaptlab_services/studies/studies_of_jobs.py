"""The studies that jobs belong to, for lists of jobs."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from adaptlab_db.tables import Study, StudyJob


def first_studies(session: Session, job_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the name of the oldest study of each job that has one."""
    rows = session.execute(
        select(StudyJob.job_id, Study.name)
        .ext(distinct_on(StudyJob.job_id))
        .join(Study, Study.id == StudyJob.study_id)
        .where(StudyJob.job_id.in_(job_ids))
        .order_by(StudyJob.job_id, Study.created_at, Study.id)
    )
    return {row.job_id: row.name for row in rows}
