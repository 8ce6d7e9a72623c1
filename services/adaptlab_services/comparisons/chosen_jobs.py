"""Adaptations that a filter chooses to be compared; bounded, as every pair of rows is tested."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_db.tables import Job
from adaptlab_services.comparisons.comparisons import MOST_JOBS
from adaptlab_services.querying.job_filters import matching


def chosen_by(session: Session, filter_text: str) -> tuple[UUID, ...]:
    """The adaptations that succeeded and for which a filter holds, newest first.

    Raises `InvalidSpec` for a filter that makes no sense, and where more match than can be
    compared.
    """
    query = matching(session, select(Job.id).select_from(Job), filter_text)
    found = session.scalars(
        query.where(Job.kind == "adapt", Job.state == "succeeded")
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(MOST_JOBS + 1)
    ).all()
    if len(found) > MOST_JOBS:
        detail = (
            f"More than {MOST_JOBS} adaptations match. Narrow the filter, for example to one "
            "task, base model or budget."
        )
        raise InvalidSpec(Problem("/query/filter", "too_many_jobs", detail))
    return tuple(found)
