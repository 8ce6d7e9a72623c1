"""The reaper: takes jobs back from workers that send no more heartbeats.

It also notes which workers were lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import ColumnElement, exists, func, or_, select
from sqlalchemy.orm import Session

from adaptlab_db.tables import AttemptRow, Job, Worker
from adaptlab_services.leases.lease_ends import (
    CANCELLED,
    MOST_ATTEMPTS,
    after_backoff,
    paused,
    uncounted,
)
from adaptlab_services.lifecycle import workers
from adaptlab_services.lifecycle.error_fingerprints import furthest_step
from adaptlab_services.lifecycle.transitions import Change, move, queues_to_ring, settle_waiting

Fate = Literal["again", "uncounted", "spent", "cancelled", "paused"]

REAPED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class ReapedLeases:
    """Expired leases and lost workers by number; queues with new work."""

    count: int
    queues: tuple[str, ...]
    lost_workers: int = 0


def is_due(session: Session) -> tuple[bool, datetime]:
    """Return True if `reap` has anything to do, and the database's time.

    It is called every few seconds, and rarely returns True.
    """
    due, now = session.execute(_ANYTHING).one()
    return bool(due), now


def reap(session: Session, before: datetime | None = None) -> ReapedLeases:
    """Take back the jobs whose leases have expired, at a time `before` one.

    With such a time nothing else is done, since workers may not have been able to report.

    Several reapers can run at once. A job is queued again until its attempts are used up. An
    attempt that got further than all before does not count: jobs that kill their worker make no
    progress, and a machine that dies during a long run is not the run's fault. Neither does one
    whose claim the worker never received. A job that is locked by a write is left for the next
    round.
    """
    expired = session.execute(
        select(Job, _answer_was_lost())
        .where(*_EXPIRED, *(() if before is None else (Job.lease_expires_at < before,)))
        .order_by(Job.lease_expires_at)
        .limit(REAPED_AT_ONCE)
        .with_for_update(of=Job, skip_locked=True)
        .execution_options(populate_existing=True)
    )
    fates = _fates()
    chosen: dict[Change, list[UUID]] = {change: [] for change in fates.values()}
    decided = [(job.id, fates[_fate(job, untold)]) for job, untold in expired]
    for job_id, change in decided:
        chosen[change].append(job_id)
    moved = [
        job
        for change, ids in chosen.items()
        if ids
        for job in move(session, [Job.id.in_(ids), Job.state == "running"], change)
    ]
    if before is not None:
        return ReapedLeases(len(decided), queues_to_ring(moved))
    # Normally done when the base model's job ends; here for one that ended while the waiting job
    # was being inserted.
    moved += settle_waiting(session)
    lost = workers.note_lost(session)  # last, so that what was taken back from them is known
    return ReapedLeases(len(decided), queues_to_ring(moved), len(lost))


_EXPIRED = (Job.state == "running", Job.lease_expires_at < func.clock_timestamp())
_ANYTHING = select(
    or_(
        exists().where(*_EXPIRED),
        exists().where(Job.state == "waiting"),
        exists().where(workers.is_newly_lost()),
    ),
    func.clock_timestamp(),
)


def _fates() -> Mapping[Fate, Change]:
    """The changes of jobs whose worker is lost."""
    error = "The worker sent no heartbeat before its lease ended. See the attempts of this job."
    at_last = {Job.furthest_step: furthest_step()}
    return {
        "again": Change(
            "queued", "worker_lost", error, "lost", also=at_last | {Job.run_at: after_backoff()}
        ),
        "uncounted": Change("queued", "worker_lost", error, "lost", also=uncounted()),
        "spent": Change("failed", "worker_lost", error, "lost"),
        "cancelled": replace(CANCELLED, outcome="lost"),
        "paused": replace(paused(), outcome="lost"),
    }


def _answer_was_lost() -> ColumnElement[bool]:
    """Return the condition that the answer to a claim was lost.

    That is, the worker lived on after the claim without a sign of the job. Living on means a sign
    of life in the second half of the lease. A worker that died with the job can have sent one just
    after the claim.
    """
    heard = Worker.heartbeat_at
    return exists().where(
        AttemptRow.job_id == Job.id,
        AttemptRow.attempt == Job.attempt,
        AttemptRow.environment.is_(None),
        Worker.id == Job.worker_id,
        heard > AttemptRow.started_at,
        heard - AttemptRow.started_at > Job.lease_expires_at - heard,
        Job.heartbeat_at < AttemptRow.started_at,  # by the claim itself
    )


def _fate(job: Job, untold: bool) -> Fate:
    if job.cancel_requested_at is not None:
        return "cancelled"
    if job.pause_requested_at is not None:
        return "paused"
    if (untold or job.step > job.furthest_step) and job.attempt < MOST_ATTEMPTS:
        return "uncounted"
    return "again" if job.attempt < job.attempts_max else "spent"
