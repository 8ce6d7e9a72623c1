"""Ends of attempts.

An attempt ends as cancelled, paused or uncounted, or its job is queued again after a back-off.
"""

from sqlalchemy import ColumnElement, ScalarSelect, func, or_, select
from sqlalchemy.orm import Session

from adaptlab.errors import Problem
from adaptlab_db.tables import CheckpointRow, Job
from adaptlab_services.errors import ReportRefused
from adaptlab_services.lifecycle.error_fingerprints import furthest_step
from adaptlab_services.lifecycle.held_leases import Lease, held
from adaptlab_services.lifecycle.transitions import Change, Changes

FIRST_BACKOFF = 2  # seconds after the first failed attempt; doubled with each further one
LONGEST_BACKOFF = 300
MOST_ATTEMPTS = (
    50  # even for jobs that are released each time, so that one that kills its worker ends
)
CANCELLED = Change("cancelled", "cancelled_by_user")
NOT_PAUSING = {Job.pause_requested_at: None}


def paused() -> Change:
    """Return the change to paused, as requested; the attempt does not count."""
    return Change("paused", "paused_by_user", also={**uncounted(), **NOT_PAUSING})


def uncounted() -> Changes:
    """Return the columns for an attempt that does not count.

    One more attempt is allowed.
    """
    return {
        Job.attempts_max: func.least(Job.attempts_max + 1, MOST_ATTEMPTS),
        Job.furthest_step: furthest_step(),
    }


def has_checkpoints() -> ColumnElement[bool]:
    """Return the condition that a job has all of its checkpoints.

    A job that trains a base model needs one per seed; other jobs need none.
    """
    return or_(Job.kind != "pretrain", _stored_seeds() >= _seeds())


def check_checkpoints(session: Session, lease: Lease) -> None:
    """Raise `ReportRefused` if checkpoints of a held job are missing.

    Without them, the job cannot succeed.
    """
    query = select(_stored_seeds(), _seeds()).where(*held(lease), ~has_checkpoints())
    if (row := session.execute(query).one_or_none()) is not None:
        stored, seeds = row
        detail = (
            f"The base model has checkpoints for {stored} of its {seeds} seeds. Report the "
            "missing ones before the job succeeds, or report a failure."
        )
        raise ReportRefused(Problem("/outcome", "no_checkpoints", detail))


def _stored_seeds() -> ScalarSelect[int]:
    """Count the seeds with a checkpoint of the base model.

    Only checkpoints of the attempt count.
    """
    return (
        select(func.count(CheckpointRow.seed.distinct()))
        .where(
            CheckpointRow.job_id == Job.id,
            CheckpointRow.attempt == Job.attempt,
            CheckpointRow.kind == "base_model",
        )
        .correlate(Job)
        .scalar_subquery()
    )


def _seeds() -> ColumnElement[int]:
    return func.jsonb_array_length(Job.resolved_spec["seeds"])


def after_backoff() -> ColumnElement[object]:
    """Return the time at which a failed job can run again.

    The delay doubles with each attempt.
    """
    doubled = FIRST_BACKOFF * func.power(2, Job.attempt - 1)
    seconds = func.least(LONGEST_BACKOFF, doubled)
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
