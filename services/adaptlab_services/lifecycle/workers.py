"""Worker processes: the queues they serve, and their last sign of life."""

import uuid
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import (
    ColumnElement,
    Select,
    Update,
    bindparam,
    exists,
    false,
    func,
    insert,
    literal,
    null,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from adaptlab_answers.server import STARTING, WorkerLoad, WorkerView
from adaptlab_db.tables import Job, Token, Worker
from adaptlab_services.lifecycle import webhook_events

SILENCE = timedelta(seconds=60)
"""Workers poll and send heartbeats several times in this time."""


def register(
    session: Session,
    host: str,
    process_id: int,
    queues: Sequence[str],
    token_id: int | None = None,
    model_roots: Sequence[str] | None = None,
) -> UUID:
    """Insert a new worker, with its token if it uses the API; return its id.

    `model_roots` are those that it can read, None if they are unknown. Its first sign of life is
    its start, exactly: a later one means that it has looked for work or said why not.
    """
    worker_id = uuid.uuid4()
    row = {
        "id": worker_id,
        "host": host,
        "process_id": process_id,
        "queues": list(queues),
        "token_id": token_id,
        "model_roots": None if model_roots is None else list(model_roots),
        "started_at": func.now(),
        "heartbeat_at": func.now(),
    }
    session.execute(insert(Worker).values(row))
    return worker_id


def seen(which: Select[UUID | None]) -> Update:
    """Update the last sign of life of workers."""
    now = {"heartbeat_at": func.clock_timestamp()}
    return update(Worker).where(Worker.id.in_(which)).values(now)


def looks_for_work(session: Session, worker_id: UUID, unschedulable: str | None = None) -> None:
    """Record a sign of life of a worker, and the reason if it takes no jobs."""
    now = func.clock_timestamp()
    _set(session, worker_id, {"heartbeat_at": now, "unschedulable": unschedulable})


def report_load(session: Session, worker_id: UUID, load: WorkerLoad) -> None:
    """Record the memory and the GPUs of a worker; not a sign of life."""
    _set(session, worker_id, {"load": load.model_dump(mode="json")})


def looking(parameter: str) -> Update:
    """Return the update of a worker that is alive and takes jobs.

    The worker's id is the named parameter.
    """
    values = {"heartbeat_at": func.clock_timestamp(), "unschedulable": null()}
    return update(Worker).where(Worker.id == bindparam(parameter)).values(values)


def stop(session: Session, worker_id: UUID) -> None:
    """Record that a worker has shut down."""
    _set(session, worker_id, {"stopped_at": func.clock_timestamp()})


def recent(session: Session, limit: int = 100) -> tuple[WorkerView, ...]:
    """Return the workers with the latest signs of life, live ones first.

    Those of one job come last, and only for callers who see the job: anyone who may submit can
    register them.
    """
    live, has_queue = is_live().label("live"), (Worker.queues != []).label("has_queue")
    seen_job = exists().where(Token.id == Worker.token_id, Token.job_id == Job.id)
    rows = session.execute(
        select(Worker, live)
        .where(has_queue | Worker.token_id.is_(None) | seen_job)
        .order_by(live.desc(), has_queue.desc(), Worker.heartbeat_at.desc())
        .limit(limit)
    )
    return tuple(
        WorkerView(
            id=worker.id,
            host=worker.host,
            process_id=worker.process_id,
            queues=tuple(worker.queues),
            live=is_live,
            started_at=worker.started_at,
            heartbeat_at=worker.heartbeat_at,
            unschedulable=worker.unschedulable,
            load=load_of(worker),
        )
        for worker, is_live in rows
    )


def load_of(worker: Worker) -> WorkerLoad | None:
    """Return what a worker last reported of its memory and GPUs, if anything."""
    if worker.load is None:
        return None
    try:
        return WorkerLoad.model_validate(worker.load)
    except ValidationError:  # from a worker of another version
        return None


def live_queues(session: Session) -> tuple[str, ...]:
    """Return the queues from which some live worker takes jobs or is about to."""
    queue = func.unnest(Worker.queues).label("queue")
    takes_jobs = is_live() & func.coalesce(Worker.unschedulable == STARTING, true())
    return tuple(session.scalars(select(queue).where(takes_jobs).distinct().order_by(queue)))


class UnservedQueue(NamedTuple):
    """A queue from which no worker takes jobs yet."""

    name: str
    is_starting: bool


def unserved(session: Session, wanted: AbstractSet[str]) -> tuple[UnservedQueue, ...]:
    """Return those of these queues from which no live worker takes jobs."""
    starting = _starting_queues(session)
    names = wanted - {*live_queues(session)} | wanted & starting
    return tuple(UnservedQueue(name, name in starting) for name in sorted(names))


def _starting_queues(session: Session) -> frozenset[str]:
    """Return the queues whose live workers are all starting."""
    queue = func.unnest(Worker.queues).label("queue")
    starts = func.coalesce(Worker.unschedulable == STARTING, false()).label("starts")
    each = select(queue, starts).where(is_live()).subquery()
    query = select(each.c.queue).group_by(each.c.queue).having(func.bool_and(each.c.starts))
    return frozenset(session.scalars(query))


def queues_without_gpu(session: Session) -> frozenset[str]:
    """Return the queues that some live worker without an NVIDIA GPU serves.

    Workers that have not reported their load yet are left out.
    """
    queue = func.unnest(Worker.queues).label("queue")
    without = Worker.load["gpus"] == literal([], JSONB)
    return frozenset(session.scalars(select(queue).where(is_live(), without).distinct()))


def queues_with_no_gpu(session: Session) -> frozenset[str]:
    """Return the queues with live workers of which none has an NVIDIA GPU.

    A worker that has not reported its load yet may have one.
    """
    queue = func.unnest(Worker.queues).label("queue")
    without = func.coalesce(Worker.load["gpus"] == literal([], JSONB), false())
    each = select(queue, without.label("without")).where(is_live()).subquery()
    query = select(each.c.queue).group_by(each.c.queue).having(func.bool_and(each.c.without))
    return frozenset(session.scalars(query))


def is_live() -> ColumnElement[bool]:
    """Return the condition that a worker has given a sign of life lately."""
    return Worker.stopped_at.is_(None) & (Worker.heartbeat_at > func.clock_timestamp() - SILENCE)


def is_newly_lost() -> ColumnElement[bool]:
    """Return the condition that a worker fell silent and nobody has noticed."""
    return (
        Worker.stopped_at.is_(None)
        & (Worker.heartbeat_at < func.clock_timestamp() - SILENCE)
        & (Worker.lost_at.is_(None) | (Worker.lost_at < Worker.heartbeat_at))
    )


def note_lost(session: Session) -> tuple[UUID, ...]:
    """Mark workers that fell silent as lost, and record it for webhooks.

    Call it only if the database could be reached for some time: after an outage all workers are
    silent. A worker whose row is locked is left for the next call.
    """
    silent = select(Worker.id).where(is_newly_lost()).with_for_update(skip_locked=True)
    lost = session.scalars(
        update(Worker)
        .where(Worker.id.in_(silent))
        .values(lost_at=func.clock_timestamp())
        .returning(Worker.id)
        .execution_options(synchronize_session=False)
    ).all()
    if lost:
        webhook_events.workers_lost(session, lost)
    return tuple(lost)


def _set(session: Session, worker_id: UUID, values: dict[str, object]) -> None:
    session.execute(
        update(Worker)
        .where(Worker.id == worker_id)
        .values(values)
        .execution_options(synchronize_session=False)
    )
