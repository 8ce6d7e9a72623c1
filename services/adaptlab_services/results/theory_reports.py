"""Reports of theory checks for many jobs."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.measurements.theory_report import Check
from adaptlab_db.tables import Job, TheoryReport


def reports_of(session: Session, job_ids: Collection[UUID]) -> Mapping[UUID, tuple[Check, ...]]:
    """Return the reports of each job's latest attempt, in measured order."""
    fields = tuple(Check.model_fields)
    columns = [getattr(TheoryReport, name) for name in fields]
    rows = session.execute(
        select(TheoryReport.job_id, *columns)
        .join(Job, (Job.id == TheoryReport.job_id) & (Job.attempt == TheoryReport.attempt))
        .where(TheoryReport.job_id.in_(job_ids))
        .order_by(TheoryReport.job_id, TheoryReport.place)
    )
    by_job: dict[UUID, list[Check]] = defaultdict(list)
    for job_id, *values in rows:
        by_job[job_id].append(Check.model_validate(dict(zip(fields, values, strict=True))))
    return {job_id: tuple(reports) for job_id, reports in by_job.items()}
