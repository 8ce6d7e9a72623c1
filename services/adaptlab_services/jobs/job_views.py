"""A job as everybody sees it: the JSON of `/v1/jobs/{id}`."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import (
    ColumnElement,
    DateTime,
    Integer,
    Result,
    Select,
    Text,
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

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_answers.jobs import JobSummary, JobView
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_db.tables import Attempt, BaseModel, Job, Project, User, Worker
from adaptlab_db.visibility import ACROSS_PROJECTS

JsonObject = dict[str, object]
Columns = Mapping[str, Any]  # of a row, of several types


MOST_AHEAD = 500
"""Jobs are counted so far: what is behind more of them is far from its turn, wherever it is."""


@cache
def summary_rows() -> Select[*tuple[Any, ...]]:  # columns of several types
    """Jobs with all that a summary needs of them; refine it and give the rows to `job_summaries`.

    Made once: that took a thirtieth of a page of jobs. Columns and not objects of the ORM, which
    took a third of it.
    """
    names = cast("$.checks[*].name", JSONPATH)
    of_theory = func.jsonb_path_query_array(Job.resolved_spec, names, type_=JSONB)
    return (
        select(
            *(getattr(Job, name) for name in _OF_JOBS),
            Job.spec["name"].astext.label("name"),
            case((Job.kind == "theory", of_theory)).label("checks"),
            User.name.label("owner"),
            Project.name.label("project"),
            Worker.host.label("host"),
            Attempt.first_step_at,
            func.clock_timestamp().label("now"),
        )
        .join(User, User.id == Job.owner_id)
        .join(Project, Project.id == Job.project_id)
        .outerjoin(Worker, Worker.id == Job.worker_id)
        .outerjoin(Attempt, (Attempt.job_id == Job.id) & (Attempt.attempt == Job.attempt))
    )


@cache
def job_rows() -> Select[*tuple[Any, ...]]:  # columns of several types
    """The same with all that a view needs; refine it and give the rows to `job_view`."""
    made_here = (BaseModel.name == Job.base_model) & (BaseModel.project_id == Job.project_id)
    whole = (Job.spec, Job.resolved_spec, BaseModel.job_id.label("base_job_id"))
    return summary_rows().add_columns(*whole).outerjoin(BaseModel, made_here)


_SAID_AS_IT_IS = (
    *("id", "kind", "state", "reason", "error", "retry_of", "attempt", "attempts_max"),
    *("base_model", "family", "task", "method", "budget_requested", "trainable_parameters"),
    *("spec_digest", "labels", "created_at", "started_at", "finished_at", "heartbeat_at"),
    *("name", "owner", "project"),
)
_OF_JOBS = (
    *_SAID_AS_IT_IS[:-3],
    *("cancel_requested_at", "pause_requested_at", "step", "total_steps", "queue", "priority"),
    "worker_id",
)


def columns_of(found: Result[*tuple[Any, ...]]) -> list[dict[str, Any]]:
    """The rows that were found, each by the names of its columns."""
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]


def job_summaries(rows: Sequence[Columns]) -> tuple[JobSummary, ...]:
    """The summaries of rows of `summary_rows`."""
    return _SUMMARIES.validate_python(tuple(_told(columns) for columns in rows))


_SUMMARIES = TypeAdapter(tuple[JobSummary, ...])


def job_view(columns: Columns, position: int | None = None) -> JobView:
    """The view of one row of `job_rows`."""
    resolved = ResolvedSpec.model_validate(columns["resolved_spec"])
    told = _told(columns, position)
    told["spec"] = columns["spec"]
    told["resolved_spec"] = resolved
    told["budget"] = resolved.budget
    told["links"] = _links(columns["id"], columns["base_job_id"])
    return JobView.model_validate(told)


def _told(columns: Columns, position: int | None = None) -> dict[str, Any]:
    """What a summary says, to be checked in one go: its parts by themselves take twice as long."""
    told: dict[str, Any] = {name: columns[name] for name in _SAID_AS_IT_IS}
    worker, queue = columns["worker_id"], columns["queue"]
    told["terminal"] = columns["state"] in TERMINAL_STATES
    told["cancel_requested"] = columns["cancel_requested_at"] is not None
    told["pause_requested"] = columns["pause_requested_at"] is not None
    told["checks"] = columns["checks"] or ()
    told["progress"] = _progress(columns)
    told["queue"] = {"name": queue, "priority": columns["priority"], "position": position}
    told["worker"] = None if worker is None else {"id": worker, "host": columns["host"]}
    return told


def queue_position(session: Session, job: Columns) -> int | None:
    """How many queued jobs a worker would take before this one, plus one.

    None if it is not queued, or behind more than `MOST_AHEAD`. Fairness between owners can change
    the order, so this is an estimate.
    """
    if job["state"] != "queued":
        return None
    place = {name: job[name] for name in ("queue", "priority", "created_at")}
    ahead = session.execute(_AHEAD, place, execution_options=ACROSS_PROJECTS).scalar_one()
    return position_after(ahead)


def position_after(ahead: int) -> int | None:
    """The place behind so many jobs, None if they were not all counted."""
    return ahead + 1 if ahead <= MOST_AHEAD else None


def jobs_ahead(
    queue: ColumnElement[str], priority: ColumnElement[int], created_at: ColumnElement[datetime]
) -> Select[int]:
    """How many queued jobs are before a place in a queue, counted to one more than `MOST_AHEAD`."""
    other = _JOBS.alias("other")
    is_before = or_(
        other.c.priority > priority,
        and_(other.c.priority == priority, other.c.created_at < created_at),
    )
    found = (
        select(other.c.id)
        .where(other.c.state == "queued", other.c.queue == queue, is_before)
        .limit(MOST_AHEAD + 1)
    )
    return select(func.count()).select_from(found.subquery())


_JOBS = Job.metadata.tables[Job.__tablename__]
_AHEAD = jobs_ahead(
    bindparam("queue", type_=Text()),
    bindparam("priority", type_=Integer()),
    bindparam("created_at", type_=DateTime(timezone=True)),
)


def _progress(job: Columns) -> dict[str, object]:
    remaining: float | None = None
    if job["state"] == "running" and job["first_step_at"] is not None and job["step"] > 0:
        spent = max(job["now"] - job["first_step_at"], timedelta()).total_seconds()
        remaining = round(spent / job["step"] * max(job["total_steps"] - job["step"], 0), 1)
    return {"step": job["step"], "total": job["total_steps"], "eta_seconds": remaining}


def _links(job_id: UUID, base_job_id: UUID | None) -> dict[str, str | None]:
    place = f"/v1/jobs/{job_id}"
    return {
        "self": place,
        "events": f"{place}/events",
        "metrics": f"{place}/metrics",
        "replicates": f"{place}/replicates",
        "attempts": f"{place}/attempts",
        "evaluations": f"{place}/evaluations",
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
