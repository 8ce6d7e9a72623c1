"""Changes of a job's state, all made by `move`, with their consequences.

`adaptlab_db.job_states` lists the allowed changes; a trigger of the database rejects all others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    Insert,
    Integer,
    Text,
    Update,
    Uuid,
    any_,
    bindparam,
    column,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import InstrumentedAttribute, Session

from adaptlab_db.job_states import STATES, TERMINAL_STATES, AttemptOutcome, JobState
from adaptlab_db.tables import AttemptRow, Job, JobEvent, Json, Table
from adaptlab_services.lifecycle import (
    awaiting,
    metric_summaries,
    training_states,
    webhook_events,
)

Reason = Literal[
    "user_error",
    "infeasible_budget",
    "diverged",
    "out_of_memory",
    "disk_full",
    "timeout",
    "stalled",
    "killed",
    "repeated_failure",
    "preempted",
    "worker_lost",
    "system_error",
    "base_model_failed",
    "adaptation_failed",
    "fetch_failed",
    "cancelled_by_user",
    "paused_by_user",
]
Changes = Mapping[InstrumentedAttribute[Any], Any]  # values or SQL expressions of any column type

LONGEST_ERROR = 20_000
MAKE_BASE_MODELS = ("pretrain", "import")
AWAITED = (*MAKE_BASE_MODELS, "adapt")  # kinds of jobs that others can wait for


@dataclass(frozen=True, slots=True)
class Moved:
    """A job that changed state."""

    job_id: UUID
    state: str
    kind: str
    queue: str
    attempt: int
    sequence: int


# Compared by identity: `also` holds SQL expressions, which have no equality of their own.
@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A change to a state, with everything else that it writes.

    Attributes:
        outcome: outcome of the attempt that was running, if any; None for that of the state.
        also: further columns of the job, set by the same statement.
        data: further members of the event.
    """

    to: JobState
    reason: Reason | None = None
    error: str | None = None
    outcome: AttemptOutcome | None = None
    also: Changes | None = None
    data: Json | None = None

    @property
    def outcome_of_attempt(self) -> AttemptOutcome:
        """Outcome of the attempt that ran at the time of the change, if any."""
        outcome = self.outcome or STATES[self.to].outcome
        assert outcome is not None, f"no attempt ends when its job becomes {self.to}"
        return outcome


NO_BASE_MODEL = Change(
    "failed",
    "base_model_failed",
    "The job that makes the base model failed or was cancelled. See that job.",
)
NO_ADAPTATION = Change(
    "failed",
    "adaptation_failed",
    "A job whose adaptation was to be measured failed or was cancelled. See "
    "resolved_spec.adaptations.",
)

NO_FETCH = Change(
    "failed", "fetch_failed", "The fetch of the model failed or was cancelled. Retry the job."
)


def transition(
    session: Session,
    job_id: UUID,
    *,
    to: JobState,
    from_states: Sequence[JobState],
    attempt: int | None = None,
    reason: Reason | None = None,
    error: str | None = None,
    data: Json | None = None,
) -> bool:
    """Move a job to another state if it is in one of `from_states`.

    Otherwise, nothing is changed.

    Args:
        session: the caller's unit of work.
        job_id: the job.
        to: the new state.
        from_states: the states from which the job is moved.
        attempt: the fencing token; a change on behalf of a worker must name it.
        reason: the cause, as a word for programs.
        error: the error, as text for users.
        data: further members of the event.

    Returns:
        True if the job was moved.
    """
    which = [Job.id == job_id, Job.state.in_(from_states)]
    if attempt is not None:
        which.append(Job.attempt == attempt)
    return bool(move(session, which, Change(to, reason, error, data=data)))


def move(
    session: Session, which: Sequence[ColumnElement[bool]], change: Change
) -> tuple[Moved, ...]:
    """Move every job that meets all conditions, by one guarded statement.

    Appends an event to each, and opens the attempt of a claimed job or closes those that were
    running. When a job that others wait for has ended, those are moved too. Returns all jobs that
    moved, the waiting ones last.
    """
    moved = _update_jobs(session, which, change)
    if not moved:
        return ()
    _record(session, moved, change)
    if change.to in TERMINAL_STATES:
        training_states.forget(session, [job.job_id for job in moved])
        webhook_events.jobs_ended(session, [job.job_id for job in moved])
    if change.to == "succeeded":
        metric_summaries.keep(session, [job.job_id for job in moved])
    awaited = [job.job_id for job in moved if job.kind in AWAITED]
    if awaited and change.to in TERMINAL_STATES:
        return (*moved, *settle_waiting(session, awaited))
    return moved


def append_event(
    session: Session,
    job_id: UUID,
    type: str,  # noqa: A002 - the event's own word
    data: Json,
    attempt: int | None = None,
) -> int:
    """Append one event to a job that has not ended.

    Returns the event's number within the job.
    """
    sequence = session.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(event_sequence=Job.event_sequence + 1)
        .returning(Job.event_sequence)
    ).scalar_one()
    row = {"job_id": job_id, "sequence": sequence, "type": type, "attempt": attempt, "data": data}
    session.execute(insert(JobEvent), [row])
    return sequence


def settle_waiting(session: Session, ended: Sequence[UUID] | None = None) -> tuple[Moved, ...]:
    """Queue or fail jobs that wait for a base model or for adaptations.

    Jobs whose base model and adaptations are ready are queued; jobs that lost one of them fail.

    Args:
        session: the caller's unit of work.
        ended: only jobs that wait for the results of these; None for all.

    Returns:
        The jobs that moved.
    """
    waits = [Job.state == "waiting"]
    if ended is not None:  # no job waits for most jobs that end, which one query shows
        waiting = session.scalars(select(Job.id).where(*waits, awaiting.waits_for(ended))).all()
        if not waiting:
            return ()
        waits.append(Job.id.in_(waiting))
    elif session.scalars(select(Job.id).where(*waits).limit(1)).first() is None:
        return ()  # asked every few seconds, and three statements would change nothing
    ready = move(session, [*waits, awaiting.has_all()], Change("queued"))
    no_base = move(session, [*waits, awaiting.lacks_base_model()], NO_BASE_MODEL)
    no_adaptation = move(session, [*waits, awaiting.lacks_adaptation()], NO_ADAPTATION)
    return (*ready, *no_base, *no_adaptation)


def fail_unfetched(session: Session) -> None:
    """Fail imports whose fetch ended without a word.

    For the API alone: workers may not read fetches.
    """
    waits = [Job.state == "waiting", awaiting.lacks_fetch()]
    if session.scalars(select(Job.id).where(*waits).limit(1)).first() is not None:
        move(session, waits, NO_FETCH)


def queues_to_ring(moved: Iterable[Moved]) -> tuple[str, ...]:
    """Return the sorted queues in which jobs of `moved` wait for a worker."""
    return tuple(sorted({job.queue for job in moved if job.state == "queued"}))


def storable(text: str | None) -> str | None:
    """Return the end of a text, without characters that Postgres rejects.

    These are NUL and lone surrogates; `LONGEST_ERROR` characters are kept.
    """
    if text is None:
        return None
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", "replace").decode()[-LONGEST_ERROR:]


def _update_jobs(
    session: Session, which: Sequence[ColumnElement[bool]], change: Change
) -> tuple[Moved, ...]:
    values: dict[InstrumentedAttribute[Any], Any] = {
        Job.state: change.to,
        Job.reason: change.reason,
        Job.error: storable(change.error),
        Job.event_sequence: Job.event_sequence + 1,
    }
    if change.to != "running":
        values[Job.lease_expires_at] = None
    if change.to in TERMINAL_STATES:
        values[Job.finished_at] = func.clock_timestamp()
    rows = session.execute(
        update(Job)
        .where(*which)
        .values(values | dict(change.also or {}))
        .returning(Job.id, Job.state, Job.kind, Job.queue, Job.attempt, Job.event_sequence)
        .execution_options(synchronize_session=False)
    )
    return tuple(Moved(*row) for row in rows)


def _record(session: Session, moved: Sequence[Moved], change: Change) -> None:
    """Append an event to each job, and open or close their attempts.

    One statement does both.
    """
    data: Json = dict(change.data or {})
    if change.reason is not None:
        data["reason"] = change.reason
    parameters: dict[str, object] = {
        "jobs": [job.job_id for job in moved],
        "sequences": [job.sequence for job in moved],
        "attempts": [job.attempt or None for job in moved],
        "type": change.to,
        "data": data,
    }
    if change.to == "running":
        session.execute(_opening(), parameters)
        return
    parameters |= {
        "new_outcome": change.outcome_of_attempt,
        "new_reason": change.reason,
        "new_error": storable(change.error),
    }
    session.execute(_closing(), parameters, execution_options={"synchronize_session": False})


# Kept, because building these statements takes longer than running them.
_JOBS = bindparam("jobs", type_=ARRAY(Uuid))
_TABLES = Table.metadata.tables  # in an INSERT of the ORM, parameters are rows


def _appending(*, with_saved_step: bool = False) -> CTE:
    lists = (bindparam(name, type_=ARRAY(Integer)) for name in ("sequences", "attempts"))
    columns = (column("job_id", Uuid), column("sequence", Integer), column("attempt", Integer))
    moved = func.unnest(_JOBS, *lists).table_valued(*columns, name="moved").render_derived()
    type_, data = bindparam("type", type_=Text), bindparam("data", type_=JSONB)
    saved = func.coalesce(training_states.saved_step(moved.c.job_id), func.jsonb_build_object())
    members = data.op("||")(saved) if with_saved_step else data
    rows = select(moved.c.job_id, moved.c.sequence, type_, moved.c.attempt, members)
    names = ["job_id", "sequence", "type", "attempt", "data"]
    return insert(_TABLES["job_events"]).from_select(names, rows).cte("appended")


@cache
def _opening() -> Insert:
    columns = (Job.id, Job.attempt, Job.worker_id, Job.claim_id)
    claimed = select(*columns).where(Job.id == any_(_JOBS))
    names = ["job_id", "attempt", "worker_id", "claim_id"]
    appended = _appending(with_saved_step=True)
    return insert(_TABLES["attempts"]).from_select(names, claimed).add_cte(appended)


@cache
def _closing() -> Update:
    # Only the last attempt of a job can be open, so the ids of the jobs are enough.
    return (
        update(AttemptRow)
        .where(AttemptRow.job_id == any_(_JOBS), AttemptRow.ended_at.is_(None))
        .values(
            ended_at=func.clock_timestamp(),
            outcome=bindparam("new_outcome", type_=Text),
            reason=bindparam("new_reason", type_=Text),
            error=bindparam("new_error", type_=Text),
        )
        .add_cte(_appending())
    )
