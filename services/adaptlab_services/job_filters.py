"""Lists of jobs narrowed down: by a filter, or to those of a study."""

from typing import TypeVarTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, select

from adaptlab_db.tables import Job, StudyJob
from adaptlab_services.conditions import condition
from adaptlab_services.job_fields import job_fields
from adaptlab_services.query_fields import Joins

Columns = TypeVarTuple("Columns")


def matching(query: Select[*Columns], filter_text: str) -> Select[*Columns]:
    """The jobs of a query for which a filter holds; the query joins their owners and attempts.

    Raises `InvalidSpec` for a filter that makes no sense.
    """
    joins = Joins()
    holds = condition(filter_text, job_fields(), joins)
    return query if holds is None else joins.onto(query).where(holds)


def in_study(study: UUID | Select[UUID]) -> ColumnElement[bool]:
    """Whether a job belongs to a study, or to one of several."""
    which = [study] if isinstance(study, UUID) else study
    return Job.id.in_(select(StudyJob.job_id).where(StudyJob.study_id.in_(which)))
