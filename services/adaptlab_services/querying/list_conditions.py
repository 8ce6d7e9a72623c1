"""Conditions on lists of jobs: by a filter, or by study."""

from typing import TypeVarTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import Session

from adaptlab_db.tables import Job, StudyJob
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Joins
from adaptlab_services.querying.job_fields import job_fields

Columns = TypeVarTuple("Columns")


def matching(session: Session, query: Select[*Columns], filter_text: str) -> Select[*Columns]:
    """Narrow a query of jobs down by a filter.

    Raises `InvalidSpec` for an invalid filter.
    """
    joins = Joins(session)
    holds = condition(filter_text, job_fields(), joins)
    return query if holds is None else joins.onto(query).where(holds)


def in_study(study: UUID | Select[UUID]) -> ColumnElement[bool]:
    """Return the condition that a job belongs to a study.

    If `study` selects several, the job belongs to one of them.
    """
    studies = [study] if isinstance(study, UUID) else study
    return Job.id.in_(select(StudyJob.job_id).where(StudyJob.study_id.in_(studies)))
