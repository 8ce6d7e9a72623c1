"""How an attempt can end that has not settled its job: called off, paused, or to be had again."""

from sqlalchemy import ColumnElement, func

from adaptlab_db.tables import Job
from adaptlab_services.poison import furthest_step
from adaptlab_services.transitions import Change, Changes

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


def after_backoff() -> ColumnElement[object]:
    """When a job that failed may be tried again: later each time."""
    doubled = FIRST_BACKOFF * func.power(2, Job.attempt - 1)
    seconds = func.least(LONGEST_BACKOFF, doubled)
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
