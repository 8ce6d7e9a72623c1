"""Queues: the jobs in each, its workers, and the jobs that these run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_answers.moments import Moment
from adaptlab_answers.server import WorkerView
from adaptlab_db.tables import AttemptRow, Job


class QueueView(Value):
    """A queue; `queued` and `running` count its jobs that the caller can see.

    `workers` counts live workers, and `takers` those of them that take jobs now.
    """

    name: str
    queued: int
    running: int
    oldest_queued_at: Moment | None
    workers: int
    takers: int


class RunningJob(Value):
    """A job that a worker runs, and its device.

    The device is known once the run has started.
    """

    id: UUID
    kind: str
    name: str | None
    method: str | None
    task: str | None
    device: str | None
    started_at: Moment


def queue_views(session: Session, known: Sequence[WorkerView]) -> tuple[QueueView, ...]:
    """Return the queues that live workers serve or that have jobs, by name.

    `known` are the workers, as `workers.recent` returns them.
    """
    jobs, oldest = func.count().label("jobs"), func.min(Job.created_at).label("oldest")
    query = select(Job.queue, jobs, oldest).group_by(Job.queue)
    waiting = {row.queue: row for row in session.execute(query.where(Job.state == "queued"))}
    running = {row.queue: row for row in session.execute(query.where(Job.state == "running"))}
    live = [worker for worker in known if worker.live]
    serving = Counter(queue for worker in live for queue in worker.queues)
    taking = Counter(
        queue for worker in live if worker.unschedulable is None for queue in worker.queues
    )
    return tuple(
        QueueView(
            name=name,
            queued=waiting[name].jobs if name in waiting else 0,
            running=running[name].jobs if name in running else 0,
            oldest_queued_at=waiting[name].oldest if name in waiting else None,
            workers=serving[name],
            takers=taking[name],
        )
        for name in sorted({*waiting, *running, *serving})
    )


def running_by_worker(session: Session) -> Mapping[UUID, Sequence[RunningJob]]:
    """Return the running jobs by worker, oldest first.

    Only jobs that the caller can see are included.
    """
    rows = session.execute(
        select(AttemptRow.worker_id, Job, AttemptRow.started_at, AttemptRow.environment)
        .join(AttemptRow, (AttemptRow.job_id == Job.id) & (AttemptRow.attempt == Job.attempt))
        .where(Job.state == "running")
        .order_by(AttemptRow.started_at, Job.id)
    )
    by_worker: dict[UUID, list[RunningJob]] = {}
    for worker_id, job, started_at, environment in rows:
        running = RunningJob(
            id=job.id,
            kind=job.kind,
            name=job.spec.get("name"),
            method=job.method,
            task=job.task,
            device=(environment or {}).get("device"),
            started_at=started_at,
        )
        by_worker.setdefault(worker_id, []).append(running)
    return by_worker
