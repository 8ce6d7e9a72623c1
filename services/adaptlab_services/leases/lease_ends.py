"""How an attempt can end that has not settled its job: called off, paused, or to be had again."""

from sqlalchemy import ColumnElement, ScalarSelect, func, or_, select
from sqlalchemy.orm import Session

from adaptlab.errors import Problem
from adaptlab_db.tables import Checkpoint, Job
from adaptlab_services.errors import ReportRefused
from adaptlab_services.lifecycle.claims import Lease, held
from adaptlab_services.lifecycle.poison import furthest_step
from adaptlab_services.lifecycle.transitions import MAKE_BASE_MODELS, Change, Changes

FIRST_BACKOFF = 2  # seconds after the first failed attempt; doubled with each further one
LONGEST_BACKOFF = 300
MOST_ATTEMPTS = 50  # however often a job was released, so that a job that ends its worker ends too
CANCELLED = Change("cancelled", "cancelled_by_user")
NOT_PAUSING = {Job.pause_requested_at: None}


def paused() -> Change:
    """Stopped as asked, at no cost."""
    return Change("paused", "paused_by_user", also={**uncounted(), **NOT_PAUSING})


def uncounted() -> Changes:
    """One attempt more is allowed for, since this one ended through no fault of the job."""
    return {
        Job.attempts_max: func.least(Job.attempts_max + 1, MOST_ATTEMPTS),
        Job.furthest_step: furthest_step(),
    }


def has_checkpoints() -> ColumnElement[bool]:
    """The condition that a job has a checkpoint of every seed, if it makes a base model."""
    return or_(Job.kind.not_in(MAKE_BASE_MODELS), _stored_seeds() >= _seeds())


def check_checkpoints(session: Session, lease: Lease) -> None:
    """Raise `ReportRefused` where a held job cannot succeed for want of checkpoints."""
    query = select(_stored_seeds(), _seeds()).where(*held(lease), ~has_checkpoints())
    if (row := session.execute(query).one_or_none()) is not None:
        stored, seeds = row
        detail = (
            f"The base model has checkpoints for {stored} of its {seeds} seeds. Report the "
            "missing ones before the job succeeds, or report a failure."
        )
        raise ReportRefused(Problem("/outcome", "no_checkpoints", detail))


def _stored_seeds() -> ScalarSelect[int]:
    """Of how many seeds the job's attempt has a base model's checkpoint."""
    return (
        select(func.count(Checkpoint.seed.distinct()))
        .where(
            Checkpoint.job_id == Job.id,
            Checkpoint.attempt == Job.attempt,
            Checkpoint.kind == "base_model",
        )
        .correlate(Job)
        .scalar_subquery()
    )


def _seeds() -> ColumnElement[int]:
    return func.jsonb_array_length(Job.resolved_spec["seeds"])


def after_backoff() -> ColumnElement[object]:
    """When a job that failed may be tried again: later each time."""
    doubled = FIRST_BACKOFF * func.power(2, Job.attempt - 1)
    seconds = func.least(LONGEST_BACKOFF, doubled)
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
