"""Conditions on the jobs that a waiting job waits for.

Those are the jobs of its base models and of its adaptations. An import can wait for a fetch.
"""

from collections.abc import Sequence
from functools import cache
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    Uuid,
    and_,
    column,
    exists,
    false,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.orm import aliased
from sqlalchemy.sql.selectable import TableValuedAlias

from adaptlab.specs.spec import UPLOADED
from adaptlab_db.job_states import ACTIVE_STATES, LOST_STATES
from adaptlab_db.tables import ACTIVE_FETCH_STATES, BaseModel, HubFetch, Job


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
    return base & ~_base_model_in(coming) & ~_measures_one_of(coming) & ~awaits_fetch()


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


@cache
def awaits_fetch() -> ColumnElement[bool]:
    """The condition that a job imports a model whose files are not there.

    See `ModelFolder.is_coming`.
    """
    folder = Job.resolved_spec["model_folder"]
    no_files = func.jsonb_array_length(folder["stored"]) == 0
    is_coming = and_(Job.kind == "import", no_files, folder["origin"]["commit"].astext.is_not(None))
    return func.coalesce(is_coming, false())


@cache
def lacks_fetch() -> ColumnElement[bool]:
    """The condition that a job waits for a fetch that is not active."""
    return awaits_fetch() & ~exists().where(is_fetched_by(HubFetch))


def is_fetched_by(fetch: type[HubFetch], job: type[Job] = Job) -> ColumnElement[bool]:
    """The condition that an active fetch brings the files of an import."""
    folder = job.resolved_spec[("model_folder", "folder")].astext
    return and_(
        fetch.project_id == job.project_id,
        func.concat(f"{UPLOADED}/", fetch.name) == folder,
        fetch.state.in_(ACTIVE_FETCH_STATES),
        fetch.dataset.is_(None),
        fetch.plan_only.is_(False),
        fetch.push.is_(None),
    )


def fetch_for(job_id: UUID) -> Select[HubFetch]:
    """Select the fetch for which a job waits, or its base models do."""
    maker = aliased(Job)
    its_base = _its_base_models().where(BaseModel.job_id == maker.id)
    is_its_own = or_(maker.id == Job.id, exists(its_base.correlate(Job, maker)))
    return (
        select(HubFetch)
        .join(maker, is_fetched_by(HubFetch, maker))
        .join(Job, is_its_own)
        .where(Job.id == job_id, maker.kind == "import", maker.state == "waiting")
        .order_by(HubFetch.created_at)
        .limit(1)
    )


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
