"""The states of a job: allowed transitions, looks, and sets of states.

The one table of states. A new state takes a line in `JobState`, an entry in `STATES` and a
migration of the check constraint and of the trigger `guard_job_states`. A test compares both with
the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

JobState = Literal["waiting", "queued", "running", "paused", "succeeded", "failed", "cancelled"]
AttemptOutcome = Literal["succeeded", "failed", "cancelled", "released", "paused", "lost"]
Colour = Literal["still", "outlined", "active", "good", "warn", "bad"]
Mark = Literal["ring", "dashes", "dot", "bars", "check", "cross", "slash", "exclamation"]


@dataclass(frozen=True, slots=True)
class StateLook:
    """The colour of a state on pages, and the mark beside its name."""

    colour: Colour
    mark: Mark


@dataclass(frozen=True, slots=True)
class State:
    """One state of a job.

    Attributes:
        followers: the states that a job can go to; none if it has ended.
        outcome: outcome of the attempt that was running when the job came here.
        is_pending: True if a worker will claim the job without another request; such jobs count
            against the limit of queued jobs.
        look: colour and mark on pages.
    """

    look: StateLook
    followers: tuple[JobState, ...] = ()
    outcome: AttemptOutcome | None = None
    is_pending: bool = False


STATES: Mapping[JobState, State] = MappingProxyType(
    {
        "waiting": State(
            StateLook("outlined", "dashes"), ("queued", "cancelled", "failed"), is_pending=True
        ),
        "queued": State(
            StateLook("still", "ring"),
            ("running", "cancelled", "failed", "paused"),
            "released",
            is_pending=True,
        ),
        "running": State(
            StateLook("active", "dot"), ("succeeded", "failed", "cancelled", "queued", "paused")
        ),
        "paused": State(StateLook("warn", "bars"), ("queued", "cancelled"), "paused"),
        "succeeded": State(StateLook("good", "check"), outcome="succeeded"),
        "failed": State(StateLook("bad", "cross"), outcome="failed"),
        "cancelled": State(StateLook("outlined", "slash"), outcome="cancelled"),
    }
)

States = tuple[JobState, ...]

JOB_STATES: States = tuple(STATES)
ATTEMPT_OUTCOMES: tuple[AttemptOutcome, ...] = get_args(AttemptOutcome)
TERMINAL_STATES: States = tuple(name for name, state in STATES.items() if not state.followers)
ACTIVE_STATES: States = tuple(name for name, state in STATES.items() if state.followers)
"""States of jobs that have not ended."""
PENDING_STATES: States = tuple(name for name, state in STATES.items() if state.is_pending)
"""States of jobs that a worker has yet to claim and will."""
UNCLAIMED_STATES: States = tuple(name for name in ACTIVE_STATES if name != "running")
"""States of jobs that have not ended and that no worker holds."""
PAUSABLE_STATES: States = tuple(
    name for name, state in STATES.items() if "paused" in state.followers
)
"""States of jobs that can be paused."""
LOST_STATES: States = tuple(name for name in TERMINAL_STATES if name != "succeeded")
"""States of jobs whose results will never come."""
