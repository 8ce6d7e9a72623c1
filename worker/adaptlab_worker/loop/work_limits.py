"""A worker's shift: its limits on jobs and time, and its end.

A worker with a broker serves for ever; one in a batch job has an end. All slots share one shift,
ask it before they claim, and report the result to it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from adaptlab_worker.attempt.attempt import Conclusion

MOST_FALSE_STARTS = 3  # consecutive trainers that did not start
REACH_SECONDS = 300.0  # as long as the client retries


@dataclass(frozen=True, slots=True)
class ShiftLimits:
    """The limits of a shift; None and infinity set no limit.

    Attributes:
        most_jobs: the number of jobs to claim.
        idle_seconds: how long there may be no work; 0 ends the shift at the first vain look.
        until: the monotonic time at which claiming ends.
        reach_seconds: how long the ledger may be unreachable while nothing runs.
    """

    most_jobs: int | None = None
    idle_seconds: float | None = None
    until: float | None = None
    reach_seconds: float | None = None


ENDLESS = ShiftLimits()


class Shift:
    """The state of a worker's shift, shared by its slots.

    Args:
        limits: the limits of the shift.
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
        """Return the time if a slot may claim now, else None.

        Each look ends with one of `found_nothing`, `out_of_reach`, `refused` and `claimed`.
        """
        with self._lock:
            if self.refusal is not None or self._has_enough() or self._is_late():
                return None
            self._looking += 1
            return self._clock()

    def seconds_left(self) -> float | None:
        """Return how long a job claimed now may take; None for no limit."""
        until = self._limits.until
        return None if until is None else max(until - self._clock(), 0.0)

    def found_nothing(self, since: float, *, is_short_of_room: bool = False) -> None:
        """Record a look without a job, or without room for one."""
        with self._lock:
            self._looking -= 1
            self._out_of_reach_since = None
            self.is_short_of_room = is_short_of_room
            # A look during the end of a job may have missed work that this end created.
            if self._idle_since is None and since >= self._ended_at:
                self._idle_since = since

    def out_of_reach(self, since: float) -> None:
        """Record a look that the ledger did not answer."""
        with self._lock:
            self._looking -= 1
            if self._out_of_reach_since is None:
                self._out_of_reach_since = since

    def refused(self, error: Exception) -> None:
        """Record that the ledger refuses this worker, which ends the shift."""
        with self._lock:
            self._looking -= 1
            self.refusal = error

    def claimed(self) -> None:
        """Record a claimed job, which now runs; `job_ended` follows."""
        with self._lock:
            self._looking -= 1
            self._running += 1
            self._jobs += 1
            self._idle_since = self._out_of_reach_since = None
            self._false_starts = 0
            self.is_short_of_room = False

    def job_ended(self, conclusion: Conclusion) -> None:
        """Record that a claimed job has ended for this worker."""
        with self._lock:
            self._running -= 1
            self._ended_at = self._clock()
            self._idle_since = None
            self.conclusion = conclusion

    def false_start(self) -> None:
        """Record that a trainer did not start."""
        with self._lock:
            self._false_starts += 1

    @property
    def jobs(self) -> int:
        """The number of claimed jobs."""
        return self._jobs

    @property
    def is_sick(self) -> bool:
        """Return True if trainers do not start on this machine."""
        return self._false_starts >= MOST_FALSE_STARTS

    @property
    def is_cut_off(self) -> bool:
        """Return True if the ledger has been unreachable for too long."""
        return _has_passed(self._out_of_reach_since, self._limits.reach_seconds, self._clock())

    def is_over(self) -> bool:
        """Return True if nothing runs and nothing more will be claimed."""
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
