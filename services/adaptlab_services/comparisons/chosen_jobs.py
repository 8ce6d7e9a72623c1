"""Adaptations to compare, chosen by a filter and limited in number."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_db.tables import Job
from adaptlab_services.comparisons.comparisons import MOST_JOBS
from adaptlab_services.querying.list_conditions import matching


def chosen_by(session: Session, filter_text: str) -> tuple[UUID, ...]:
    """Return the successful adaptations that match a filter, newest first.

    Raises:
        InvalidSpec: the filter is invalid, or more than `MOST_JOBS` match.
    """
    query = matching(session, select(Job.id).select_from(Job), filter_text)
    ids = session.scalars(
        query.where(Job.kind == "adapt", Job.state == "succeeded")
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(MOST_JOBS + 1)
    ).all()
    if len(ids) > MOST_JOBS:
        detail = (
            f"More than {MOST_JOBS} adaptations match. Narrow the filter, for example to one "
            "task, base model or budget."
        )
        raise InvalidSpec(Problem("/query/filter", "too_many_jobs", detail))
    return tuple(ids)
