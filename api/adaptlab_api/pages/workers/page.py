"""The page of live workers, their jobs and the queues that they serve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.c_compiler import WHAT_IT_COSTS
from adaptlab_answers.server import STARTING, WorkerView
from adaptlab_api.pages.rendering.formats import method_title, words
from adaptlab_services.leases import queues
from adaptlab_services.leases.queues import RunningJob
from adaptlab_services.lifecycle import workers

POLL = 5
MOST_WORKERS = 200
MAKING = {"pretrain": "Pretraining", "import": "Import of"}


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker with its state and its jobs: id, title and device of each."""

    worker: WorkerView
    state: str
    jobs: tuple[tuple[UUID, str, str | None], ...]


def worker_page(session: Session) -> dict[str, object]:
    """Return the values of the template, with the number of workers gone."""
    recent = workers.recent(session, MOST_WORKERS)
    running = queues.running_by_worker(session)
    views = queues.queue_views(session, recent)
    live = [worker for worker in recent if worker.live]
    unserved = workers.unserved(session, {queue.name for queue in views if queue.queued})
    return {
        "rows": [_row(worker, running) for worker in live],
        "gone": len(recent) - len(live),
        "cut": len(recent) == MOST_WORKERS,
        "queues": views,
        "unserved": unserved,
        "starting": {queue.name for queue in unserved if queue.is_starting},
        "poll": POLL,
        "without_compiler": WHAT_IT_COSTS,
    }


def _row(worker: WorkerView, running: Mapping[UUID, Sequence[RunningJob]]) -> WorkerRow:
    jobs = tuple((job.id, _title(job), job.device) for job in running.get(worker.id, ()))
    reasons = {None: "running" if jobs else "idle", STARTING: "starting"}
    return WorkerRow(worker, reasons.get(worker.unschedulable, "unschedulable"), jobs)


def _title(job: RunningJob) -> str:
    if job.kind in MAKING:
        return f"{MAKING[job.kind]} {job.name}"
    if job.kind == "theory":
        return "Theory checks"
    return f"{method_title(job.method)} on {words(job.task)}"
