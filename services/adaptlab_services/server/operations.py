"""Figures about the whole server, read from the database.

They name no project, job or user. One look takes a few statements, whose cost grows with the jobs
that wait and with stored artifacts, but not with the jobs that have ended.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_answers.server import WorkerLoad
from adaptlab_db.session import one_by_one
from adaptlab_db.tables import CLAIM_BOUNDS, Artifact, AttemptCount, ClaimCount, Job, Worker
from adaptlab_services.lifecycle.workers import is_live, load_of

KEPT_SECONDS = 5.0
ARTIFACTS_KEPT_SECONDS = 60.0
"""Longer, because every stored artifact is read to add up their sizes."""
MOST_WORKERS = 1000


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The jobs in one queue.

    `oldest_seconds` is the time since the submission of the oldest queued one, 0 without any.
    """

    name: str
    queued: int
    oldest_seconds: float
    running: int


@dataclass(frozen=True, slots=True)
class AttemptFigures:
    """The number of attempts that ever ended with an outcome."""

    outcome: str
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class ClaimFigures:
    """The claims from one queue by how long the job could have been claimed.

    `buckets` has a number for each of `CLAIM_BOUNDS` and one for longer waits; they are not added
    up. `seconds` is the sum of all waits.
    """

    queue: str
    buckets: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class ArtifactFigures:
    """The artifacts in one store with one state."""

    store: str
    state: str
    artifacts: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """A live worker; `load` is None if it has not reported any."""

    id: UUID
    host: str
    queues: tuple[str, ...]
    takes_jobs: bool
    load: WorkerLoad | None


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """The figures at one time."""

    queues: tuple[QueueFigures, ...]
    attempts: tuple[AttemptFigures, ...]
    claims: tuple[ClaimFigures, ...]
    artifacts: tuple[ArtifactFigures, ...]
    workers: tuple[WorkerFigures, ...]


class Operations:
    """Reader of the figures; remembers the last ones for a few seconds.

    Simultaneous readers share one look.

    Args:
        sessions: the database, with every project.
        clock: monotonic seconds.
    """

    def __init__(
        self, sessions: sessionmaker[Session], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._looking = threading.Lock()
        self._figures: ServerFigures | None = None
        self._read_at = 0.0
        self._artifacts: tuple[ArtifactFigures, ...] | None = None
        self._artifacts_read_at = 0.0

    def figures(self) -> ServerFigures:
        """Return the figures, at most `KEPT_SECONDS` old."""
        with self._looking:
            now = self._clock()
            if self._figures is None or now - self._read_at >= KEPT_SECONDS:
                with one_by_one(self._sessions) as session:
                    self._figures = self._look(session, now)
                self._read_at = now
            return self._figures

    def _look(self, session: Session, now: float) -> ServerFigures:
        if self._artifacts is None or now - self._artifacts_read_at >= ARTIFACTS_KEPT_SECONDS:
            self._artifacts = artifact_figures(session)
            self._artifacts_read_at = now
        return ServerFigures(
            queues=queue_figures(session),
            attempts=attempt_figures(session),
            claims=claim_figures(session),
            artifacts=self._artifacts,
            workers=worker_figures(session),
        )


def queue_figures(session: Session) -> tuple[QueueFigures, ...]:
    """Return the queues that have queued or running jobs or a live worker."""
    jobs = func.count().label("jobs")
    age = func.extract("epoch", func.clock_timestamp() - func.min(Job.created_at)).label("age")
    queued = {
        row.queue: row
        for row in session.execute(
            select(Job.queue, jobs, age).where(Job.state == "queued").group_by(Job.queue)
        )
    }
    running = {
        row.queue: row.jobs
        for row in session.execute(
            select(Job.queue, jobs).where(Job.state == "running").group_by(Job.queue)
        )
    }
    served = session.scalars(select(func.unnest(Worker.queues)).where(is_live()).distinct())
    return tuple(
        QueueFigures(
            name=name,
            queued=queued[name].jobs if name in queued else 0,
            oldest_seconds=max(0.0, float(queued[name].age)) if name in queued else 0.0,
            running=running.get(name, 0),
        )
        for name in sorted({*queued, *running, *served})
    )


def attempt_figures(session: Session) -> tuple[AttemptFigures, ...]:
    """Return the numbers of ended attempts, since the database was created."""
    by = (AttemptCount.outcome, AttemptCount.reason)
    rows = session.execute(select(*by, func.sum(AttemptCount.attempts)).group_by(*by).order_by(*by))
    return tuple(AttemptFigures(outcome, reason, int(count)) for outcome, reason, count in rows)


def claim_figures(session: Session) -> tuple[ClaimFigures, ...]:
    """Return the claims by queue, with how long their jobs had waited."""
    by = (ClaimCount.queue, ClaimCount.bucket)
    rows = session.execute(
        select(*by, func.sum(ClaimCount.claims), func.sum(ClaimCount.seconds)).group_by(*by)
    )
    counts: dict[str, list[int]] = {}
    seconds: dict[str, float] = {}
    for queue, bucket, claims, waited in rows:
        counts.setdefault(queue, [0] * (len(CLAIM_BOUNDS) + 1))[bucket] = int(claims)
        seconds[queue] = seconds.get(queue, 0.0) + waited
    return tuple(
        ClaimFigures(queue, tuple(counts[queue]), seconds[queue]) for queue in sorted(counts)
    )


def artifact_figures(session: Session) -> tuple[ArtifactFigures, ...]:
    """Return number and size of artifacts by store and state."""
    by = (Artifact.store, Artifact.state)
    rows = session.execute(
        select(*by, func.count(), func.sum(Artifact.size)).group_by(*by).order_by(*by)
    )
    return tuple(
        ArtifactFigures(store, state, count, int(size)) for store, state, count, size in rows
    )


def worker_figures(session: Session) -> tuple[WorkerFigures, ...]:
    """Return the live workers, those that started first at the front."""
    rows: Sequence[Worker] = session.scalars(
        select(Worker).where(is_live()).order_by(Worker.started_at, Worker.id).limit(MOST_WORKERS)
    ).all()
    return tuple(
        WorkerFigures(
            id=worker.id,
            host=worker.host,
            queues=tuple(worker.queues),
            takes_jobs=worker.unschedulable is None,
            load=load_of(worker),
        )
        for worker in rows
    )
