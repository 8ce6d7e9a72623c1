"""Limits of waiting for an unreachable server and for a silent run."""

import statistics
from collections import deque
from dataclasses import dataclass

from adaptlab.runs.events import Event, Progress

REMEMBERED = 101  # durations of steps; a few that waited for a disk do not move the median


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of waiting.

    Attributes:
        ride_through_seconds: how long a run continues if its lease cannot be renewed.
        stall_seconds: how long a run may be silent, if its steps are fast.
        stall_steps: the number of median steps that it may be silent, if they are slow.
    """

    ride_through_seconds: float = 900.0
    stall_seconds: float = 600.0
    stall_steps: float = 20.0


class StallTimer:
    """Detection of a run that is stuck, as opposed to slow.

    Args:
        patience: the limits.
        now: the start of the run, on a monotonic clock.
    """

    def __init__(self, patience: Patience, now: float) -> None:
        self._patience = patience
        self._heard_at = now
        self._step = 0
        self._step_at: float | None = None
        self._durations: deque[float] = deque(maxlen=REMEMBERED)

    def heard(self, event: Event, now: float) -> None:
        """Record that the run has reported an event."""
        self._heard_at = now
        if not isinstance(event, Progress) or event.phase != "training":
            return
        if self._step_at is not None and event.step > self._step:
            self._durations.append((now - self._step_at) / (event.step - self._step))
        self._step, self._step_at = event.step, now

    def hold(self, now: float) -> None:
        """Restart the silence: the worker is not listening now."""
        self._heard_at = self._step_at = now

    @property
    def limit(self) -> float:
        """Seconds of silence after which the run counts as stuck."""
        slow = statistics.median(self._durations) if self._durations else 0.0
        return max(self._patience.stall_seconds, self._patience.stall_steps * slow)

    def is_over(self, now: float) -> bool:
        """Return True if the run has been silent for too long."""
        silence = now - self._heard_at
        # Computed only if needed: the median takes longer than the rest of a look.
        return silence > self._patience.stall_seconds and silence > self.limit
