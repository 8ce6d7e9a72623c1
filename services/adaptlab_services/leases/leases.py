"""The ledger: a worker's only interface to jobs and results.

Times come from the database's clock alone, so that a wrong clock of a worker does no harm.
"""

import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Float,
    Integer,
    Select,
    Text,
    bindparam,
    case,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec
from adaptlab.runs.events import Event, Progress
from adaptlab_answers.server import WorkerLoad
from adaptlab_db.artifacts import ArtifactStore, StoredArtifact, streamed
from adaptlab_db.errors import StoreUnreachable
from adaptlab_db.job_states import AttemptOutcome
from adaptlab_db.session import one_by_one
from adaptlab_db.tables import AttemptRow, Job, LeaseArtifact
from adaptlab_services.errors import LeaseLost, LedgerUnreachable
from adaptlab_services.leases import claiming, recording
from adaptlab_services.leases.lease_ends import (
    CANCELLED,
    MOST_ATTEMPTS,
    NOT_PAUSING,
    after_backoff,
    check_checkpoints,
    has_checkpoints,
    paused,
    uncounted,
)
from adaptlab_services.lifecycle import job_workers, root_needs, workers
from adaptlab_services.lifecycle.error_fingerprints import (
    fingerprint,
    furthest_step,
    has_failed_alike,
)
from adaptlab_services.lifecycle.held_leases import (
    AS_GIVEN,
    Claim,
    Lease,
    LeaseParameters,
    given,
    held,
)
from adaptlab_services.lifecycle.job_workers import JobWorker
from adaptlab_services.lifecycle.transitions import (
    Change,
    Moved,
    Reason,
    move,
    queues_to_ring,
)
from adaptlab_services.people.tokens import Principal

Command = Literal["continue", "stop", "pause"]

Choice = tuple[tuple[ColumnElement[bool], ...], Change]  # a condition besides the fence
Fence = Callable[[LeaseParameters], list[ColumnElement[bool]]]
NO_ARTIFACTS: Mapping[Path, str] = MappingProxyType({})


class Ledger(Protocol):
    """A worker's interface to jobs and results.

    Every method can raise `LedgerUnreachable`. If a lease no longer holds, methods that take it
    raise `LeaseLost` and change nothing. All can be repeated if it is unknown whether they had an
    effect. Those that end an attempt return the queues that have new work.
    """

    def register_worker(
        self,
        host: str,
        process_id: int,
        queues: Sequence[str],
        model_roots: Sequence[str] | None = None,
    ) -> UUID:
        """Register a worker; return its id.

        It gets no job that needs another model root than `model_roots`, unless they are None.
        """
        ...

    def claim(
        self,
        worker_id: UUID,
        queues: Sequence[str],
        claim_id: UUID | None = None,
        within_seconds: float | None = None,
    ) -> Claim | None:
        """Claim the most urgent job of these queues; None if there is none.

        If the answer was lost, a call with the same `claim_id` returns the same claim. With
        `within_seconds`, only jobs that are expected to end in that time are claimed.
        """
        ...

    def stand_back(self, worker_id: UUID, why: str) -> None:
        """Record that a worker lives but takes no jobs, until it claims again."""
        ...

    def report_load(self, worker_id: UUID, load: WorkerLoad) -> None:
        """Record the memory and the GPUs of a worker."""
        ...

    def say_goodbye(self, worker_id: UUID) -> None:
        """Record that a worker shuts down."""
        ...

    def heartbeat(self, lease: Lease, step: int, phase: Progress | None = None) -> Command:
        """Renew the lease, and return the command for the run.

        Also reports the training step, and the progress of a later phase. The command is `stop` if
        the job was cancelled, and `pause` to save the state and then stop.
        """
        ...

    def put_artifact(self, lease: Lease, chunks: Iterable[bytes]) -> StoredArtifact:
        """Store content of the job.

        It is a result once an event that names it is recorded.
        """
        ...

    def fetch_artifact(self, lease: Lease, sha256: str) -> Iterator[bytes]:
        """Return the content of an artifact or of a dataset.

        The claim names the artifact, and the claim's spec names the dataset.
        """
        ...

    def record(
        self, lease: Lease, events: Sequence[Event], artifacts: Mapping[Path, str] = NO_ARTIFACTS
    ) -> None:
        """Store results of a run.

        `artifacts` has the SHA-256 of the content at each path in `events`. Raises `ReportRefused`
        for results that a run of the job's spec cannot have.
        """
        ...

    def finish(self, lease: Lease) -> tuple[str, ...]:
        """End the job as succeeded, or as cancelled if that was requested before.

        Raises `ReportRefused` for a base model without all of its checkpoints.
        """
        ...

    def fail(self, lease: Lease, reason: Reason, error: str, *, retry: bool) -> tuple[str, ...]:
        """End the attempt as failed.

        With `retry`, the job is queued again if attempts are left.
        """
        ...

    def release(self, lease: Lease, reason: Reason, error: str | None = None) -> tuple[str, ...]:
        """Return the unfinished job to its queue; the attempt does not count."""
        ...

    def stopped(self, lease: Lease) -> tuple[str, ...]:
        """End the job as cancelled, after the run was stopped."""
        ...

    def paused(self, lease: Lease) -> tuple[str, ...]:
        """End the attempt as paused.

        The job is queued if it was resumed in the meantime.
        """
        ...


class _RootUnread(Exception):
    """A claimed job needs a model root that its worker cannot read."""

    def __init__(self, readable: Sequence[str]) -> None:
        super().__init__()
        self.readable = readable


class DatabaseLedger:
    """The ledger of workers with a database connection, and of the API.

    The API uses it for workers without such a connection.

    Args:
        sessions: the database.
        lease_seconds: duration of a lease after the claim and after each heartbeat.
        most_running: number of jobs of one owner that run at a time; None for no limit.
        token: the token of workers that use the API, whose project or job limits their claims;
            None for those of the installation itself.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        lease_seconds: float = 30,
        most_running: int | None = None,
        token: Principal | None = None,
    ) -> None:
        self._sessions = sessions
        self._most_running = most_running
        self._token_id = None if token is None else token.token_id
        self._project_id = None if token is None else token.project_id
        self._job_id = None if token is None else token.job_id
        self._lease_seconds = lease_seconds

    def register_worker(
        self,
        host: str,
        process_id: int,
        queues: Sequence[str],
        model_roots: Sequence[str] | None = None,
    ) -> UUID:
        """See `Ledger`. A worker whose token is for one job serves no queue."""
        of_a_job = JobWorker(host, process_id, self._token_id, model_roots)
        with self._unit_of_work() as session:
            if self._job_id is not None:
                return job_workers.register(session, self._job_id, of_a_job)
            return workers.register(session, host, process_id, queues, self._token_id, model_roots)

    def claim(
        self,
        worker_id: UUID,
        queues: Sequence[str],
        claim_id: UUID | None = None,
        within_seconds: float | None = None,
    ) -> Claim | None:
        """See `Ledger`.

        A job whose stored spec cannot be read fails, and the next one is taken.
        """
        claim_id, roots = claim_id or uuid.uuid4(), None
        while True:
            try:
                return self._claimed(worker_id, queues, claim_id, within_seconds, roots)
            except _RootUnread as unread:  # the claim is undone
                roots = unread.readable

    def _claimed(
        self,
        worker_id: UUID,
        queues: Sequence[str],
        claim_id: UUID,
        within_seconds: float | None,
        roots: Sequence[str] | None,
    ) -> Claim | None:
        """Claim a job; only one that needs none but these roots, unless None.

        Such jobs are not sought at once, because it takes longer and few jobs need a root.
        """
        seconds = self._lease_seconds
        while True:
            with self._unit_of_work() as session:
                taken = claiming.taken_before(session, worker_id, claim_id, seconds)
                if taken is None:
                    request = claiming.ClaimRequest(
                        queues,
                        self._most_running,
                        self._project_id,
                        within_seconds,
                        self._job_id,
                        roots,
                    )
                    taken = claiming.take(session, worker_id, request, claim_id, seconds)
                if taken is None:
                    return None
                try:
                    claim = claiming.claim_of(session, taken, claim_id, seconds)
                    if roots is None and (needed := root_needs.roots_of(claim)):
                        readable = root_needs.readable_by(session, worker_id)
                        if readable is not None and not needed <= {*readable}:
                            raise _RootUnread(readable)
                    return claim
                except (ValidationError, InvalidSpec) as error:
                    move(session, [Job.id == taken.job_id], claiming.unreadable(error))

    def stand_back(self, worker_id: UUID, why: str) -> None:
        """See `Ledger`."""
        with self._unit_of_work() as session:
            workers.looks_for_work(session, worker_id, why)

    def report_load(self, worker_id: UUID, load: WorkerLoad) -> None:
        """See `Ledger`."""
        with self._unit_of_work() as session:
            workers.report_load(session, worker_id, load)

    def say_goodbye(self, worker_id: UUID) -> None:
        """See `Ledger`."""
        with self._unit_of_work() as session:
            workers.stop(session, worker_id)

    def heartbeat(self, lease: Lease, step: int, phase: Progress | None = None) -> Command:
        """See `Ledger`."""
        with self._one_statement() as session:
            values = given(lease) | {"lease_seconds": lease.lease_seconds, "step": step}
            values |= dict.fromkeys(("phase", "done", "total"))
            if phase is not None:
                values |= {"phase": phase.phase, "done": phase.step, "total": phase.total}
            row = session.execute(_renewal(held), values).one_or_none()
            if row is None:
                raise LeaseLost(lease.job_id, lease.attempt)
            if row.cancel_requested_at is not None:
                return "stop"
            return "continue" if row.pause_requested_at is None else "pause"

    def put_artifact(self, lease: Lease, chunks: Iterable[bytes]) -> StoredArtifact:
        """See `Ledger`.

        No result refers to the content yet, so no fence is needed, and the job's row is not locked
        while the content is written. The lease is looked up only to avoid useless work. A row
        records that the content was sent for this job: only reports of this job can name it, and it
        counts as stored by the job's owner.
        """
        with self._one_statement() as session:
            if session.scalars(select(Job.id).where(*held(lease))).one_or_none() is None:
                raise LeaseLost(lease.job_id, lease.attempt)
        with self._unit_of_work() as session:
            stored = ArtifactStore(session).write(chunks)
            sent = {"job_id": lease.job_id, "sha256": stored.sha256}
            session.execute(insert(LeaseArtifact).values(sent).on_conflict_do_nothing())
            return stored

    def fetch_artifact(self, lease: Lease, sha256: str) -> Iterator[bytes]:
        """See `Ledger`.

        Permission is not checked: the database role can read everything.
        """
        with _translated():
            yield from streamed(self._sessions, sha256)

    def record(
        self, lease: Lease, events: Sequence[Event], artifacts: Mapping[Path, str] = NO_ARTIFACTS
    ) -> None:
        """See `Ledger`.

        The batch is one unit of work, and is checked against the job's spec.
        """
        with self._unit_of_work() as session:
            recording.write(session, lease, events, artifacts)

    def finish(self, lease: Lease) -> tuple[str, ...]:
        """See `Ledger`.

        A base model succeeds only with a checkpoint for each of its seeds.
        """
        return self._end(
            lease,
            ((Job.cancel_requested_at.is_(None), has_checkpoints()), Change("succeeded")),
            ((Job.cancel_requested_at.is_not(None),), CANCELLED),
            check=check_checkpoints,
        )

    def fail(self, lease: Lease, reason: Reason, error: str, *, retry: bool) -> tuple[str, ...]:
        """See `Ledger`.

        A job that fails alike twice without a step of progress is not tried again. An attempt that
        was killed from outside after it got further than all before does not count, like one whose
        worker was lost.
        """
        final: Choice = ((), Change("failed", reason, error))
        if not retry:
            return self._end(lease, final)
        latest = fingerprint(reason, error)
        noted = {Job.error_fingerprint: latest, Job.furthest_step: furthest_step()}
        is_left = Job.attempt < Job.attempts_max
        return self._end(
            lease,
            ((Job.cancel_requested_at.is_not(None),), CANCELLED),
            (
                (is_left, has_failed_alike(latest)),
                Change("failed", _reason_of_two(reason), _alike(error)),
            ),
            *(_uncounted_ends(reason, error) if reason == "killed" else ()),
            (
                (is_left, Job.pause_requested_at.is_not(None)),
                Change("paused", reason, error, "failed", also=noted | NOT_PAUSING),
            ),
            (
                (is_left,),
                Change(
                    "queued", reason, error, "failed", also=noted | {Job.run_at: after_backoff()}
                ),
            ),
            final,
        )

    def release(self, lease: Lease, reason: Reason, error: str | None = None) -> tuple[str, ...]:
        """See `Ledger`."""
        return self._end(
            lease,
            ((Job.cancel_requested_at.is_not(None),), CANCELLED),
            ((Job.pause_requested_at.is_not(None),), paused()),
            ((), Change("queued", reason, error, also=uncounted())),
        )

    def paused(self, lease: Lease) -> tuple[str, ...]:
        """See `Ledger`."""
        return self.release(lease, "preempted")

    def stopped(self, lease: Lease) -> tuple[str, ...]:
        """See `Ledger`."""
        return self._end(lease, ((), CANCELLED))

    def _end(
        self, lease: Lease, *choices: Choice, check: Callable[[Session, Lease], None] | None = None
    ) -> tuple[str, ...]:
        """Make the first change whose condition holds.

        Each is guarded by the fence. If none holds, `check` can raise the reason.
        """
        with self._unit_of_work() as session:
            moved = _first(session, lease, choices[:1])  # mostly this one, which saves the lock
            if not moved:
                # Locked, so that no request can come between two of the changes.
                session.execute(select(Job.id).where(*held(lease)).with_for_update())
                moved = _first(session, lease, choices)
            if moved:
                return queues_to_ring(moved)
            if check is not None:
                check(session, lease)
            outcomes: set[AttemptOutcome] = {change.outcome_of_attempt for _, change in choices}
            if not _has_ended(session, lease, outcomes):
                raise LeaseLost(lease.job_id, lease.attempt)
            # An earlier call of this worker has ended the attempt, and its answer was lost.
            return ()

    @contextmanager
    def _unit_of_work(self) -> Generator[Session]:
        with _translated(), self._sessions.begin() as session:
            yield session

    @contextmanager
    def _one_statement(self) -> Generator[Session]:
        """A session in which each statement is its own unit of work."""
        with _translated(), one_by_one(self._sessions) as session:
            yield session


@cache
def _renewal(fence: Fence) -> Select[datetime | None, datetime | None]:
    """Return the statement that renews a lease.

    It also records the worker's sign of life, and returns the requests to stop. Kept, because
    building the statement takes as long as running it, and every worker does so every few seconds.
    One per fence, because tests replace `held` to show that it is what protects.
    """
    seconds: BindParameter[float] = bindparam("lease_seconds", type_=Float())
    step = func.least(bindparam("step", type_=Integer()), Job.total_steps)
    phase: BindParameter[str] = bindparam("phase", type_=Text())
    goes_on = Job.phase.is_not_distinct_from(phase)
    renewed = (
        update(Job)
        .where(*fence(AS_GIVEN))
        .values(
            step=func.greatest(Job.step, step),
            phase=phase,
            phase_done=bindparam("done", type_=BigInteger()),
            phase_total=bindparam("total", type_=BigInteger()),
            phase_since=case((goes_on, Job.phase_since), else_=func.clock_timestamp()),
            heartbeat_at=func.clock_timestamp(),
            lease_expires_at=claiming.seconds_from_now(seconds),
        )
        .returning(Job.cancel_requested_at, Job.pause_requested_at, Job.worker_id)
        .cte("renewed")
    )
    seen = workers.seen(select(renewed.c.worker_id)).cte("seen")
    return select(renewed.c.cancel_requested_at, renewed.c.pause_requested_at).add_cte(seen)


def _first(session: Session, lease: Lease, choices: Sequence[Choice]) -> tuple[Moved, ...]:
    """Make the first change whose condition holds."""
    for condition, change in choices:
        moved = move(session, [*held(lease), *condition], change)
        if moved:
            return moved
    return ()


def _has_ended(session: Session, lease: Lease, outcomes: set[AttemptOutcome]) -> bool:
    return (
        session.execute(
            select(AttemptRow.attempt).where(
                AttemptRow.job_id == lease.job_id,
                AttemptRow.attempt == lease.attempt,
                AttemptRow.claim_id == lease.claim_id,
                AttemptRow.outcome.in_(outcomes),
            )
        ).one_or_none()
        is not None
    )


def _uncounted_ends(reason: Reason, error: str) -> tuple[Choice, Choice]:
    """Return the ends of an attempt that got further than all before.

    Such an attempt does not count.
    """
    further = Job.step > Job.furthest_step, Job.attempt < MOST_ATTEMPTS
    noted = {**uncounted(), Job.error_fingerprint: None}
    return (
        (
            (*further, Job.pause_requested_at.is_not(None)),
            Change("paused", reason, error, "failed", also=noted | NOT_PAUSING),
        ),
        (further, Change("queued", reason, error, "failed", also=noted)),
    )


def _reason_of_two(reason: Reason) -> Reason:
    """Return the reason for giving up after two similar failures.

    Running out of memory remains the reason.
    """
    return reason if reason == "out_of_memory" else "repeated_failure"


def _alike(error: str) -> str:
    return (
        "Two attempts in a row failed in the same way, and the second got no further than the "
        f"first, so the job is not tried again. Fix the cause and retry it. {error}"
    )


@contextmanager
def _translated() -> Generator[None]:
    """Turn errors that can be retried into `LedgerUnreachable`.

    These are errors of connections and locks.
    """
    try:
        yield
    except (PoolTimeout, StoreUnreachable) as error:
        raise LedgerUnreachable(str(error)) from error
    except DBAPIError as error:
        if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
            raise LedgerUnreachable(str(error.orig)) from error
        raise
