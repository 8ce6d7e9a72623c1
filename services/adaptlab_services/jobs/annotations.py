"""Names, labels, notes and archiving of jobs, which can always change."""

from typing import Any
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.annotations import AnnotationChanges, JobAnnotations
from adaptlab_answers.jobs import JobView
from adaptlab_db.tables import Job
from adaptlab_services.errors import Absent
from adaptlab_services.jobs import jobs
from adaptlab_services.lifecycle.transitions import MAKE_BASE_MODELS
from adaptlab_services.people import access

NAMED_BY_BASE_MODEL = (
    "This job creates a base model, whose name it has. Use a label or notes instead."
)


def annotate(session: Session, job_id: UUID, changes: JobAnnotations) -> JobView:
    """Change what is written on a job, in whatever state it is.

    Raises `Absent`, `Forbidden`, and `InvalidSpec` for too many labels, or a name for a
    job that creates a base model.
    """
    # The columns alone: an object of the job would keep its state as it was.
    columns = (Job.owner_id, Job.project_id, Job.kind, Job.labels, Job.archived_at)
    row = session.execute(select(*columns).where(Job.id == job_id).with_for_update()).one_or_none()
    if row is None:
        raise Absent("job", job_id)
    access.check_change(session, row.owner_id, row.project_id)
    values = changed_columns(row, changes)
    if "name" in changes.model_fields_set:
        if row.kind in MAKE_BASE_MODELS:
            raise InvalidSpec(Problem("/name", "name_of_base_model", NAMED_BY_BASE_MODEL))
        values["name"] = changes.name
    if values:
        session.execute(
            update(Job)
            .where(Job.id == job_id)
            .values(values)
            .execution_options(synchronize_session=False)
        )
    return jobs.get(session, job_id)


def changed_columns(row: Any, changes: AnnotationChanges) -> dict[str, Any]:  # a row, or a study
    """Return the new values of the columns of a job or study that change.

    Raises `InvalidSpec` for too many labels.
    """
    values: dict[str, Any] = {}
    if changes.labels:
        values["labels"] = changes.merged(row.labels)
    if "notes" in changes.model_fields_set:
        values["notes"] = changes.notes or None
    if changes.archived is False:
        values["archived_at"] = None
    elif changes.archived and row.archived_at is None:
        values["archived_at"] = func.clock_timestamp()
    return values
