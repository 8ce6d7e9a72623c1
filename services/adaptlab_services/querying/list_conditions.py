"""Conditions on lists of jobs: by a filter, study or archiving."""

from datetime import datetime
from typing import Literal, TypeVarTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from adaptlab_db.tables import Job, StudyJob
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Joins
from adaptlab_services.querying.job_fields import job_fields

Columns = TypeVarTuple("Columns")
Archived = Literal["exclude", "only", "include"]
"""What a list does with jobs or studies that are archived."""


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


def archiving(
    archived_at: InstrumentedAttribute[datetime | None], archived: Archived
) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of a list that treats archived rows like this."""
    if archived == "include":
        return ()
    return (archived_at.is_(None) if archived == "exclude" else archived_at.is_not(None),)
