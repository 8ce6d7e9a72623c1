"""How long a worker waits: for a server that is away, and for a run that says nothing."""

import statistics
from collections import deque
from dataclasses import dataclass

from adaptlab.measurements.results import Event, Progress

REMEMBERED = 101  # durations of steps; their median is not moved by a few that waited for a disk


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of waiting.

    Attributes:
        ride_through_seconds: for how long a run goes on whose lease cannot be renewed.
        stall_seconds: for how long a run may say nothing, if its steps are quick.
        stall_steps: for how many of its own median steps it may say nothing, if they are slow.
    """

    ride_through_seconds: float = 900.0
    stall_seconds: float = 600.0
    stall_steps: float = 20.0


class StallTimer:
    """Tells a run that has got stuck from one that is slow; whether it lives says nothing of that.

    Args:
        patience: the limits.
        now: when the run was started, on a clock that only goes forward.
    """

    def __init__(self, patience: Patience, now: float) -> None:
        self._patience = patience
        self._heard_at = now
        self._step = 0
        self._step_at: float | None = None
        self._durations: deque[float] = deque(maxlen=REMEMBERED)

    def heard(self, event: Event, now: float) -> None:
        """The run has reported something."""
        self._heard_at = now
        if not isinstance(event, Progress) or event.phase != "training":
            return
        if self._step_at is not None and event.step > self._step:
            self._durations.append((now - self._step_at) / (event.step - self._step))
        self._step, self._step_at = event.step, now

    def hold(self, now: float) -> None:
        """The run cannot report anything, because nobody listens."""
        self._heard_at = self._step_at = now

    @property
    def limit(self) -> float:
        """Seconds of silence after which the run counts as stuck."""
        slow = statistics.median(self._durations) if self._durations else 0.0
        return max(self._patience.stall_seconds, self._patience.stall_steps * slow)

    def is_over(self, now: float) -> bool:
        """Whether the run has been silent for too long."""
        silence = now - self._heard_at
        # What slow steps allow beyond that takes longer to find out than the rest of a look.
        return silence > self._patience.stall_seconds and silence > self.limit
