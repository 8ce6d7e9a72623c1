"""What a waiting job waits for: its base model, and the adaptations that it measures."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Uuid, column, exists, func, or_, select, true
from sqlalchemy.orm import aliased
from sqlalchemy.sql.selectable import TableValuedAlias

from adaptlab_db.tables import BaseModel, Job

LOST = ("failed", "cancelled")
NOT_THERE = ("waiting", "queued", "running", "paused", *LOST)


def waits_for(ended: Sequence[UUID]) -> ColumnElement[bool]:
    """A job that waits for what one of these jobs makes."""
    bases = select(BaseModel.name).where(BaseModel.job_id.in_(ended))
    measured = _measured()
    names_one = exists().select_from(measured).where(measured.c.job.in_(ended))
    return or_(Job.base_model.in_(bases), (Job.kind == "theory") & names_one)


def has_all() -> ColumnElement[bool]:
    """A job for which everything is there."""
    base = or_(Job.base_model.is_(None), Job.base_model.in_(_base_models(("succeeded",))))
    return base & ~_measures_one_of(NOT_THERE)


def lacks_base_model() -> ColumnElement[bool]:
    """A job whose base model is not coming."""
    return Job.base_model.in_(_base_models(LOST))


def lacks_adaptation() -> ColumnElement[bool]:
    """A job that measures an adaptation which is not coming."""
    return (Job.kind == "theory") & _measures_one_of(LOST)


def measured_by(states: Sequence[str]) -> Select[UUID]:
    """The ids of the jobs whose adaptations are measured by theory checks in such states."""
    check = aliased(Job)
    measured = _measured(check)
    return (
        select(measured.c.job)
        .select_from(check)
        .join(measured, true())
        .where(check.kind == "theory", check.state.in_(states))
    )


def _base_models(states: Sequence[str]) -> Select[str]:
    maker = aliased(Job)
    made = select(BaseModel.name).join(maker, maker.id == BaseModel.job_id)
    return made.where(maker.state.in_(states))


def _measures_one_of(states: Sequence[str]) -> ColumnElement[bool]:
    measured, maker = _measured(), aliased(Job)
    return (
        exists()
        .select_from(measured.join(maker, maker.id == measured.c.job))
        .where(maker.state.in_(states))
    )


def _measured(job: type[Job] = Job) -> TableValuedAlias:
    """The adaptations that a job measures, as a table of the ids of the jobs that make them."""
    listed = func.jsonb_to_recordset(job.resolved_spec["adaptations"])
    return listed.table_valued(column("job", Uuid), name="measured").render_derived(with_types=True)
