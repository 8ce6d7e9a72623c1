"""Leases: how a worker takes a job, keeps it, reports on it and gives it back.

`Ledger` is a worker's only door to jobs and results. Times come from the database's clock alone,
so that a worker whose clock is wrong does no harm.
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
    BindParameter,
    ColumnElement,
    Float,
    Integer,
    Select,
    bindparam,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.measurements.results import Event
from adaptlab_db.artifacts import ArtifactStore, StoredArtifact, streamed
from adaptlab_db.errors import StoreUnreachable
from adaptlab_db.job_states import AttemptOutcome
from adaptlab_db.session import one_by_one
from adaptlab_db.tables import Attempt, Job, LeaseArtifact
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
from adaptlab_services.lifecycle import workers
from adaptlab_services.lifecycle.claims import AS_GIVEN, Claim, Lease, LeaseParameters, given, held
from adaptlab_services.lifecycle.poison import fingerprint, furthest_step, has_failed_alike
from adaptlab_services.lifecycle.transitions import (
    Change,
    Moved,
    Reason,
    move,
    queues_to_ring,
)
from adaptlab_services.people.tokens import Principal

Command = Literal["continue", "stop", "pause"]

Choice = tuple[tuple[ColumnElement[bool], ...], Change]  # a condition beside the fence
Fence = Callable[[LeaseParameters], list[ColumnElement[bool]]]
NO_ARTIFACTS: Mapping[Path, str] = MappingProxyType({})


class Ledger(Protocol):
    """A worker's door to jobs and results; every method may raise `LedgerUnreachable`.

    Those that take a lease raise `LeaseLost`, and change nothing, when it does not hold any more.
    All may be repeated when it is not known whether they had an effect. Those that end an attempt
    return the queues in which there is new work.
    """

    def register_worker(self, host: str, process_id: int, queues: Sequence[str]) -> UUID:
        """Make a worker known; returns its id."""
        ...

    def claim(
        self,
        worker_id: UUID,
        queues: Sequence[str],
        claim_id: UUID | None = None,
        within_seconds: float | None = None,
    ) -> Claim | None:
        """Take the most urgent job of these queues; None when there is none.

        A claim whose answer was lost is had again by asking for it under the same `claim_id`. With
        `within_seconds` it is the most urgent of those that are foreseen to end in that time.
        """
        ...

    def stand_back(self, worker_id: UUID, why: str) -> None:
        """Note that a worker lives but takes no jobs, until it claims again."""
        ...

    def say_goodbye(self, worker_id: UUID) -> None:
        """Note that a worker leaves and claims no more."""
        ...

    def heartbeat(self, lease: Lease, step: int) -> Command:
        """Renew the lease and report the training step; `stop` when the job was cancelled.

        With `pause` the run is to stop too, with its state saved.
        """
        ...

    def put_artifact(self, lease: Lease, chunks: Iterable[bytes]) -> StoredArtifact:
        """Store content of the job; it is a result once an event that names it is recorded."""
        ...

    def fetch_artifact(self, lease: Lease, sha256: str) -> Iterator[bytes]:
        """The content of an artifact that the claim names, or a dataset that its spec asks for."""
        ...

    def record(
        self, lease: Lease, events: Sequence[Event], artifacts: Mapping[Path, str] = NO_ARTIFACTS
    ) -> None:
        """Write results; `artifacts` gives the SHA-256 of the content at each path in `events`.

        Raises `ReportRefused` for what the job's spec does not lead to.
        """
        ...

    def finish(self, lease: Lease) -> tuple[str, ...]:
        """The job has succeeded, or is cancelled if that was asked for before.

        Raises `ReportRefused` for a base model of which checkpoints are missing.
        """
        ...

    def fail(self, lease: Lease, reason: Reason, error: str, *, retry: bool) -> tuple[str, ...]:
        """The attempt has failed; with `retry` the job goes back to its queue while it may."""
        ...

    def release(self, lease: Lease, reason: Reason, error: str | None = None) -> tuple[str, ...]:
        """Give the job back unfinished, through no fault of its own; the attempt does not count."""
        ...

    def stopped(self, lease: Lease) -> tuple[str, ...]:
        """The run was stopped because the job was cancelled."""
        ...

    def paused(self, lease: Lease) -> tuple[str, ...]:
        """The run was stopped because the job was paused; it is queued if it was resumed since."""
        ...


class DatabaseLedger:
    """The ledger of a worker that can reach the database, or of one for which the API does it.

    Args:
        sessions: the database.
        lease_seconds: how long a lease lasts after the claim and after each heartbeat.
        most_running: how many jobs of one owner may run at a time; None sets no limit.
        token: with which the workers come by the API, and whose project or job limits what they
            claim; None for those of the installation itself.
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

    def register_worker(self, host: str, process_id: int, queues: Sequence[str]) -> UUID:
        """See `Ledger`. A worker that may have one job alone serves no queue, whatever it says."""
        served = queues if self._job_id is None else ()
        with self._unit_of_work() as session:
            return workers.register(session, host, process_id, served, self._token_id)

    def claim(
        self,
        worker_id: UUID,
        queues: Sequence[str],
        claim_id: UUID | None = None,
        within_seconds: float | None = None,
    ) -> Claim | None:
        """See `Ledger`. A job whose stored spec cannot be read fails, and the next one is taken."""
        claim_id, seconds = claim_id or uuid.uuid4(), self._lease_seconds
        while True:
            with self._unit_of_work() as session:
                taken = claiming.taken_before(session, worker_id, claim_id, seconds)
                if taken is None:
                    asked = claiming.Asked(
                        queues,
                        self._most_running,
                        self._project_id,
                        within_seconds,
                        self._job_id,
                    )
                    taken = claiming.take(session, worker_id, asked, claim_id, seconds)
                if taken is None:
                    return None
                try:
                    return claiming.claim_of(session, taken, claim_id, seconds)
                except ValidationError as error:
                    move(session, [Job.id == taken.job_id], claiming.unreadable(error))

    def stand_back(self, worker_id: UUID, why: str) -> None:
        """See `Ledger`."""
        with self._unit_of_work() as session:
            workers.looks_for_work(session, worker_id, why)

    def say_goodbye(self, worker_id: UUID) -> None:
        """See `Ledger`."""
        with self._unit_of_work() as session:
            workers.stop(session, worker_id)

    def heartbeat(self, lease: Lease, step: int) -> Command:
        """See `Ledger`."""
        with self._one_statement() as session:
            asked = given(lease) | {"step": step, "lease_seconds": lease.lease_seconds}
            row = session.execute(_renewal(held), asked).one_or_none()
            if row is None:
                raise LeaseLost(lease.job_id, lease.attempt)
            if row.cancel_requested_at is not None:
                return "stop"
            return "continue" if row.pause_requested_at is None else "pause"

    def put_artifact(self, lease: Lease, chunks: Iterable[bytes]) -> StoredArtifact:
        """See `Ledger`.

        No result refers to the content yet, so no fence is needed, and the job's row is not locked
        while it is written; that the lease holds is only looked up, to save useless work. That it
        was sent for this job is noted: only the job's own reports may name it, and it counts as
        stored by the job's owner.
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
        """See `Ledger`. What may be fetched is not looked up, as the role can read it all."""
        with _translated():
            yield from streamed(self._sessions, sha256)

    def record(
        self, lease: Lease, events: Sequence[Event], artifacts: Mapping[Path, str] = NO_ARTIFACTS
    ) -> None:
        """See `Ledger`. The whole batch is one unit of work, held against the job's spec."""
        with self._unit_of_work() as session:
            recording.write(session, lease, events, artifacts)

    def finish(self, lease: Lease) -> tuple[str, ...]:
        """See `Ledger`. A base model succeeds with a checkpoint for each of its seeds alone."""
        return self._end(
            lease,
            ((Job.cancel_requested_at.is_(None), has_checkpoints()), Change("succeeded")),
            ((Job.cancel_requested_at.is_not(None),), CANCELLED),
            check=check_checkpoints,
        )

    def fail(self, lease: Lease, reason: Reason, error: str, *, retry: bool) -> tuple[str, ...]:
        """See `Ledger`. A job that fails alike twice without a step of progress is set aside.

        An attempt that was killed from outside after it got further than any before it does not
        count, like one whose worker was lost.
        """
        final: Choice = ((), Change("failed", reason, error))
        if not retry:
            return self._end(lease, final)
        found = fingerprint(reason, error)
        known = {Job.error_fingerprint: found, Job.furthest_step: furthest_step()}
        is_left = Job.attempt < Job.attempts_max
        return self._end(
            lease,
            ((Job.cancel_requested_at.is_not(None),), CANCELLED),
            (
                (is_left, has_failed_alike(found)),
                Change("failed", _reason_of_two(reason), _alike(error)),
            ),
            *(_uncounted_ends(reason, error) if reason == "killed" else ()),
            (
                (is_left, Job.pause_requested_at.is_not(None)),
                Change("paused", reason, error, "failed", also=known | NOT_PAUSING),
            ),
            (
                (is_left,),
                Change(
                    "queued", reason, error, "failed", also=known | {Job.run_at: after_backoff()}
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
        """Make the first change whose condition holds; each is guarded by the fence.

        Where none does, `check` may raise why not.
        """
        with self._unit_of_work() as session:
            moved = _first(session, lease, choices[:1])  # mostly this one, and nothing more to ask
            if not moved:
                # Between two of the changes nobody may ask for something else.
                session.execute(select(Job.id).where(*held(lease)).with_for_update())
                moved = _first(session, lease, choices)
            if moved:
                return queues_to_ring(moved)
            if check is not None:
                check(session, lease)
            outcomes: set[AttemptOutcome] = {change.outcome_of_attempt for _, change in choices}
            if not _has_ended(session, lease, outcomes):
                raise LeaseLost(lease.job_id, lease.attempt)
            # This worker's own earlier call got through and only its answer was lost.
            return ()

    @contextmanager
    def _unit_of_work(self) -> Generator[Session]:
        with _translated(), self._sessions.begin() as session:
            yield session

    @contextmanager
    def _one_statement(self) -> Generator[Session]:
        """A session in which a statement is a unit of work of its own."""
        with _translated(), one_by_one(self._sessions) as session:
            yield session


@cache
def _renewal(fence: Fence) -> Select[datetime | None, datetime | None]:
    """Renews the lease, notes that the worker was heard of, and gives what was asked for.

    Made once: that takes as long as sending it, and every worker does so every few seconds. Once
    for a fence: tests put others in the place of `held`, to see that it is what protects.
    """
    seconds: BindParameter[float] = bindparam("lease_seconds", type_=Float())
    step = func.least(bindparam("step", type_=Integer()), Job.total_steps)
    renewed = (
        update(Job)
        .where(*fence(AS_GIVEN))
        .values(
            step=func.greatest(Job.step, step),
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
            select(Attempt.attempt).where(
                Attempt.job_id == lease.job_id,
                Attempt.attempt == lease.attempt,
                Attempt.claim_id == lease.claim_id,
                Attempt.outcome.in_(outcomes),
            )
        ).one_or_none()
        is not None
    )


def _uncounted_ends(reason: Reason, error: str) -> tuple[Choice, Choice]:
    """The ends of an attempt that got further than any before it, and does not count."""
    further = Job.step > Job.furthest_step, Job.attempt < MOST_ATTEMPTS
    known = {**uncounted(), Job.error_fingerprint: None}
    return (
        (
            (*further, Job.pause_requested_at.is_not(None)),
            Change("paused", reason, error, "failed", also=known | NOT_PAUSING),
        ),
        (further, Change("queued", reason, error, "failed", also=known)),
    )


def _reason_of_two(reason: Reason) -> Reason:
    """What two failures that are alike come to; of too little memory more can be said than that."""
    return reason if reason == "out_of_memory" else "repeated_failure"


def _alike(error: str) -> str:
    return (
        "Two attempts in a row failed in the same way, and the second got no further than the "
        f"first, so the job is not tried again. Fix the cause and retry it. {error}"
    )


@contextmanager
def _translated() -> Generator[None]:
    """Say of a database that is away, or a lock not had in time, that it may be tried again."""
    try:
        yield
    except (PoolTimeout, StoreUnreachable) as error:
        raise LedgerUnreachable(str(error)) from error
    except DBAPIError as error:
        if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
            raise LedgerUnreachable(str(error.orig)) from error
        raise
