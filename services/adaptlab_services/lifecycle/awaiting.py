"""Conditions on the jobs that a waiting job waits for.

Those are the jobs of its base models and of its adaptations.
"""

from collections.abc import Sequence
from functools import cache
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, Uuid, column, exists, func, or_, select, true
from sqlalchemy.orm import aliased
from sqlalchemy.sql.selectable import TableValuedAlias

from adaptlab_db.job_states import ACTIVE_STATES, LOST_STATES
from adaptlab_db.tables import BaseModel, Job


def waits_for(ended: Sequence[UUID]) -> ColumnElement[bool]:
    """The condition that a job waits for the result of one of these jobs."""
    base = _its_base_models().where(BaseModel.job_id.in_(ended))
    measured = _measured()
    names_one = exists().select_from(measured).where(measured.c.job.in_(ended))
    return or_(exists(base), (Job.kind == "theory") & names_one)


@cache
def has_all() -> ColumnElement[bool]:
    """The condition that all results that a job needs are there."""
    base = or_(Job.base_model.is_(None), _has_base_model())
    coming = (*ACTIVE_STATES, *LOST_STATES)
    return base & ~_base_model_in(coming) & ~_measures_one_of(coming)


@cache
def lacks_base_model() -> ColumnElement[bool]:
    """The condition that one of a job's base models will never be ready."""
    return _base_model_in(LOST_STATES)


@cache
def lacks_adaptation() -> ColumnElement[bool]:
    """Return the condition that a job measures a lost adaptation.

    A lost adaptation will never be ready.
    """
    return (Job.kind == "theory") & _measures_one_of(LOST_STATES)


def measured_by(states: Sequence[str]) -> Select[UUID]:
    """Return the ids of jobs with adaptations that theory checks measure.

    Only theory checks in one of `states` count.
    """
    check = aliased(Job)
    measured = _measured(check)
    return (
        select(measured.c.job)
        .select_from(check)
        .join(measured, true())
        .where(check.kind == "theory", check.state.in_(states))
    )


def measured_adaptations() -> tuple[Select[UUID, UUID], type[Job]]:
    """Select the jobs that theory checks measure, with the checks.

    The second value is the table of the checks, for further conditions.
    """
    check = aliased(Job)
    measured = _measured(check)
    query = (
        select(measured.c.job, check.id)
        .select_from(check)
        .join(measured, true())
        .where(check.kind == "theory")
    )
    return query, check


def _base_model_in(states: Sequence[str]) -> ColumnElement[bool]:
    maker = aliased(Job)
    base = _its_base_models().join(maker, maker.id == BaseModel.job_id)
    return exists(base.where(maker.state.in_(states)))


def _has_base_model() -> ColumnElement[bool]:
    named = (BaseModel.name == Job.base_model) & (BaseModel.project_id == Job.project_id)
    return exists(select(BaseModel.name).where(named).correlate(Job))


def _its_base_models() -> Select[str]:
    """Select a job's base model and those on which it is evaluated as well.

    They are selected by their names and the job's project.
    """
    listed = func.jsonb_to_recordset(Job.resolved_spec["evaluation_bases"])
    others = listed.table_valued(column("name", Text), name="others")
    of_others = select(others.render_derived(with_types=True).c.name).correlate(Job)
    is_named = or_(BaseModel.name == Job.base_model, BaseModel.name.in_(of_others))
    named = is_named & (BaseModel.project_id == Job.project_id)
    return select(BaseModel.name).where(named).correlate(Job)


def _measures_one_of(states: Sequence[str]) -> ColumnElement[bool]:
    measured, maker = _measured(), aliased(Job)
    return (
        exists()
        .select_from(measured.join(maker, maker.id == measured.c.job))
        .where(maker.state.in_(states))
    )


def _measured(job: type[Job] = Job) -> TableValuedAlias:
    """Return the adaptations that a job measures, as a table.

    It is a table of the jobs that trained them.
    """
    listed = func.jsonb_to_recordset(job.resolved_spec["adaptations"])
    return listed.table_valued(column("job", Uuid), name="measured").render_derived(with_types=True)
