"""Answers about jobs: views and summaries, from rows of the database."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import (
    DateTime,
    Integer,
    Result,
    Select,
    and_,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH
from sqlalchemy.orm import Session

from adaptlab.plugins.task import TASKS
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_answers.jobs import JobSummary, JobView
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_db.tables import AttemptRow, BaseModel, Job, JobMetric, Project, User, Worker
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.lifecycle import awaiting
from adaptlab_services.lifecycle.root_needs import unread_roots
from adaptlab_services.models.fetch_rows import progress_of
from adaptlab_services.querying.job_fields import name_of_job

Columns = Mapping[str, Any]  # of a row, of several types

MOST_AHEAD = 500
"""Jobs ahead are counted up to this number; a job behind more of them has no position."""


@cache
def summary_rows() -> Select[*tuple[Any, ...]]:  # columns of several types
    """Select jobs with the columns that `job_summaries` needs.

    Refine the statement by conditions. Kept, because building it took a thirtieth of the time of a
    page of jobs. It selects columns, because objects of the ORM took a third of that time.
    """
    names = cast("$.checks[*].name", JSONPATH)
    dataset = Job.resolved_spec["task", "dataset", "name"].astext
    of_theory = func.jsonb_path_query_array(Job.resolved_spec, names, type_=JSONB)
    return (
        select(
            *_SHOWN,
            *(Job.priority, Job.step, Job.total_steps, Job.worker_id),
            *(Job.phase, Job.phase_done, Job.phase_total, Job.phase_since),
            *(Job.cancel_requested_at, Job.pause_requested_at),
            name_of_job().label("name"),
            case((Job.kind == "theory", of_theory)).label("checks"),
            User.name.label("owner"),
            Project.name.label("project"),
            Worker.host.label("host"),
            AttemptRow.first_step_at,
            JobMetric.mean.label("accuracy"),
            case((Job.task.in_(_tasks_on_records()), dataset)).label("dataset"),
            func.clock_timestamp().label("now"),
        )
        .join(User, User.id == Job.owner_id)
        .join(Project, Project.id == Job.project_id)
        .outerjoin(Worker, Worker.id == Job.worker_id)
        .outerjoin(AttemptRow, (AttemptRow.job_id == Job.id) & (AttemptRow.attempt == Job.attempt))
        .outerjoin(JobMetric, (JobMetric.job_id == Job.id) & (JobMetric.name == "accuracy"))
    )


def _tasks_on_records() -> tuple[str, ...]:
    """Return the names of the tasks whose specs are read for a dataset."""
    return tuple(name for name in TASKS.names() if TASKS.get(name).needs_records)


@cache
def job_rows() -> Select[*tuple[Any, ...]]:  # columns of several types
    """Select jobs with the columns that `job_view` needs.

    Refine the statement by conditions.
    """
    made_here = (BaseModel.name == Job.base_model) & (BaseModel.project_id == Job.project_id)
    whole = (Job.spec, Job.resolved_spec, BaseModel.job_id.label("base_job_id"))
    return summary_rows().add_columns(*whole).outerjoin(BaseModel, made_here)


_SHOWN = tuple(
    getattr(Job, name)
    for name in JobSummary.model_fields
    if name in Job.__table__.columns and name != "name"
)
"""The columns of jobs that a summary has under the same name, but for that of the job."""


def columns_of(result: Result[*tuple[Any, ...]]) -> list[dict[str, Any]]:
    """The rows of a result, as dictionaries by name of the column."""
    names = tuple(result.keys())
    return [dict(zip(names, row, strict=True)) for row in result]


def job_summaries(rows: Sequence[Columns]) -> tuple[JobSummary, ...]:
    """The summaries of rows of `summary_rows`."""
    return _SUMMARIES.validate_python(tuple(_summary(columns) for columns in rows))


_SUMMARIES = TypeAdapter(tuple[JobSummary, ...])


def current_view(session: Session, columns: Columns) -> JobView:
    """The view of one row of `job_rows`, with what it waits for.

    That is its place in the queue, or the fetch of its model.
    """
    view = job_view(columns, queue_position(session, columns))
    if view.state == "waiting":
        fetch = session.scalars(awaiting.fetch_for(view.id)).one_or_none()
        view = view.model_copy(update={"fetch": fetch and progress_of(fetch)})
    if not (unread := unread_roots(session, columns)):
        return view
    queue = view.queue.model_copy(update={"unread_roots": unread})
    return view.model_copy(update={"queue": queue})


def job_view(columns: Columns, position: int | None = None) -> JobView:
    """The view of one row of `job_rows`."""
    resolved = ResolvedSpec.model_validate(columns["resolved_spec"])
    view = _summary(columns, position)
    view["spec"] = columns["spec"]
    view["resolved_spec"] = resolved
    view["budget"] = resolved.budget
    view["links"] = _links(columns["id"], columns["base_job_id"])
    return JobView.model_validate(view)


def new_job_view(
    session: Session, job: Columns, owner: str, project: str, base_job_id: UUID | None
) -> JobView:
    """Return the view of a job that was created just now.

    It is built from the job's row in the table. It equals that of a later look, and so does its
    entity tag; it saves reading the job back.
    """
    checks = tuple(check["name"] for check in job["resolved_spec"]["checks"])
    joined = {
        "name": job["spec"].get("name"),
        "checks": checks,
        "owner": owner,
        "project": project,
        "dataset": _dataset(job["resolved_spec"]),
    }
    run = {"host": None, "first_step_at": None, "accuracy": None, "now": job["created_at"]}
    columns = {**job, **joined, **run, "base_job_id": base_job_id}
    return current_view(session, columns)


def _dataset(resolved: Columns) -> str | None:
    task: Columns | None = resolved.get("task")
    if task is None or task["name"] not in _tasks_on_records():
        return None
    return task["dataset"]["name"]


def _summary(columns: Columns, position: int | None = None) -> dict[str, Any]:
    """Return the members of a summary.

    They are to be validated together; separately, that takes twice as long.
    """
    summary = {name: value for name, value in columns.items() if name in JobSummary.model_fields}
    worker, queue = columns["worker_id"], columns["queue"]
    summary["terminal"] = columns["state"] in TERMINAL_STATES
    summary["cancel_requested"] = columns["cancel_requested_at"] is not None
    summary["pause_requested"] = columns["pause_requested_at"] is not None
    summary["checks"] = columns["checks"] or ()
    summary["progress"] = _progress(columns)
    summary["queue"] = {"name": queue, "priority": columns["priority"], "position": position}
    summary["worker"] = None if worker is None else {"id": worker, "host": columns["host"]}
    return summary


def queue_position(session: Session, job: Columns) -> int | None:
    """Return the position of a job in its queue, counted from 1.

    None if it is not queued, or behind more than `MOST_AHEAD` jobs. An estimate, because fairness
    between owners can change the order.
    """
    if job["state"] != "queued":
        return None
    place = {name: job[name] for name in ("queue", "priority", "created_at")}
    ahead = session.execute(_jobs_ahead(), place, execution_options=ACROSS_PROJECTS).scalar_one()
    return ahead + 1 if ahead <= MOST_AHEAD else None


@cache
def _jobs_ahead() -> Select[int]:
    """Count the queued jobs before a place in a queue.

    The count goes up to one more than `MOST_AHEAD`.
    """
    job = Job.metadata.tables[Job.__tablename__].c
    priority = bindparam("priority", type_=Integer())
    created_at = bindparam("created_at", type_=DateTime(timezone=True))
    is_before = or_(
        job.priority > priority, and_(job.priority == priority, job.created_at < created_at)
    )
    ahead = (
        select(job.id)
        .where(job.state == "queued", job.queue == bindparam("queue"), is_before)
        .limit(MOST_AHEAD + 1)
    )
    return select(func.count()).select_from(ahead.subquery())


def _progress(job: Columns) -> dict[str, object]:
    steps = {"step": job["step"], "total": job["total_steps"]}
    if job["state"] != "running":
        return {**steps, "eta_seconds": None}
    if job["phase"] is not None:
        done, total, since = job["phase_done"], job["phase_total"], job["phase_since"]
        return {
            **steps,
            "phase": job["phase"],
            "phase_done": done,
            "phase_total": total,
            "eta_seconds": _seconds_left(job["now"], since, done, total),
        }
    if job["step"] >= job["total_steps"]:
        return {**steps, "phase": "evaluating", "eta_seconds": None}
    left = _seconds_left(job["now"], job["first_step_at"], job["step"], job["total_steps"])
    return {**steps, "phase": "training", "eta_seconds": left}


def _seconds_left(now: datetime, since: datetime | None, done: int, total: int) -> float | None:
    if since is None or not done:
        return None
    return round(max(now - since, timedelta()).total_seconds() / done * (total - done), 1)


def _links(job_id: UUID, base_job_id: UUID | None) -> dict[str, str | None]:
    place = f"/v1/jobs/{job_id}"
    return {
        "self": place,
        "events": f"{place}/events",
        "metrics": f"{place}/metrics",
        "replicates": f"{place}/replicates",
        "attempts": f"{place}/attempts",
        "evaluations": f"{place}/evaluations",
        "answers": f"{place}/answers",
        "attention": f"{place}/attention",
        "checkpoints": f"{place}/checkpoints",
        "theory": f"{place}/theory",
        "cancel": f"{place}/cancel",
        "pause": f"{place}/pause",
        "resume": f"{place}/resume",
        "retry": f"{place}/retry",
        "base_job": f"/v1/jobs/{base_job_id}" if base_job_id else None,
        "studies": f"/v1/studies?job={job_id}",
    }
