"""A worker's shift: how many jobs it takes, until when, and when it may go home.

A worker beside the broker serves for ever; one in a batch job has an end. All its slots share one
shift, ask it before they claim and tell it what came of that.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Conclusion = Literal["succeeded", "failed", "cancelled", "queued", "paused", "lost"]
"""What became of a job when an attempt ended; `lost` where nothing more could be written."""

MOST_FALSE_STARTS = 3  # trainers in a row that did not start
REACH_SECONDS = 300.0  # as long as the client tries


@dataclass(frozen=True, slots=True)
class ShiftLimits:
    """What ends a shift; None and infinity set no limit.

    Attributes:
        most_jobs: how many jobs are claimed.
        idle_seconds: how long there may be nothing to claim; 0 ends it at the first look in vain.
        until: the monotonic time from which nothing is claimed any more.
        reach_seconds: how long the ledger may stay out of reach while nothing runs.
    """

    most_jobs: int | None = None
    idle_seconds: float | None = None
    until: float | None = None
    reach_seconds: float | None = None


ENDLESS = ShiftLimits()


class Shift:
    """What the slots of one worker have done, and whether more is to come.

    Args:
        limits: what ends it.
        clock: monotonic seconds.
    """

    def __init__(
        self, limits: ShiftLimits = ENDLESS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._looking = 0  # slots that ask for a job
        self._running = 0  # slots that have one
        self._jobs = 0
        self._ended_at = clock()  # of the latest job
        self._idle_since: float | None = None
        self._out_of_reach_since: float | None = None
        self._false_starts = 0
        self.conclusion: Conclusion | None = None
        self.refusal: Exception | None = None
        self.is_short_of_room = False

    def begin_look(self) -> float | None:
        """A slot is about to claim: the time, or None when it must not.

        Each look ends with one of `found_nothing`, `out_of_reach`, `refused` and `claimed`.
        """
        with self._lock:
            if self.refusal is not None or self._has_enough() or self._is_late():
                return None
            self._looking += 1
            return self._clock()

    def seconds_left(self) -> float | None:
        """How long a job may take that is claimed now; None is as long as it likes."""
        until = self._limits.until
        return None if until is None else max(until - self._clock(), 0.0)

    def found_nothing(self, since: float, *, is_short_of_room: bool = False) -> None:
        """A look that began then was in vain, or no job may be taken for lack of room."""
        with self._lock:
            self._looking -= 1
            self._out_of_reach_since = None
            self.is_short_of_room = is_short_of_room
            # What was looked up while a job ended may have missed the work that its end made.
            if self._idle_since is None and since >= self._ended_at:
                self._idle_since = since

    def out_of_reach(self, since: float) -> None:
        """The ledger did not answer a look that began then."""
        with self._lock:
            self._looking -= 1
            if self._out_of_reach_since is None:
                self._out_of_reach_since = since

    def refused(self, error: Exception) -> None:
        """The ledger answered that this worker may not claim; nothing more is looked for."""
        with self._lock:
            self._looking -= 1
            self.refusal = error

    def claimed(self) -> None:
        """The look gave a job, which now runs; `job_ended` follows."""
        with self._lock:
            self._looking -= 1
            self._running += 1
            self._jobs += 1
            self._idle_since = self._out_of_reach_since = None
            self._false_starts = 0
            self.is_short_of_room = False

    def job_ended(self, conclusion: Conclusion) -> None:
        """A job that was claimed has ended for this worker."""
        with self._lock:
            self._running -= 1
            self._ended_at = self._clock()
            self._idle_since = None
            self.conclusion = conclusion

    def false_start(self) -> None:
        """A trainer did not start."""
        with self._lock:
            self._false_starts += 1

    @property
    def jobs(self) -> int:
        """How many jobs were claimed."""
        return self._jobs

    @property
    def is_sick(self) -> bool:
        """Whether trainers do not start on this machine."""
        return self._false_starts >= MOST_FALSE_STARTS

    @property
    def is_cut_off(self) -> bool:
        """Whether the ledger has been out of reach for too long."""
        return _has_passed(self._out_of_reach_since, self._limits.reach_seconds, self._clock())

    def is_over(self) -> bool:
        """Whether nothing runs and nothing more is to be claimed."""
        with self._lock:
            if self._looking or self._running:
                return False
            if self._has_enough() or self._is_late() or self.refusal is not None:
                return True
            is_idle = _has_passed(self._idle_since, self._limits.idle_seconds, self._clock())
            return is_idle or self.is_cut_off or (self.is_sick and self._limits != ENDLESS)

    def _has_enough(self) -> bool:
        most = self._limits.most_jobs
        return most is not None and self._jobs + self._looking >= most

    def _is_late(self) -> bool:
        return self._limits.until is not None and self._clock() >= self._limits.until


def _has_passed(since: float | None, limit: float | None, now: float) -> bool:
    return since is not None and limit is not None and now - since >= limit
