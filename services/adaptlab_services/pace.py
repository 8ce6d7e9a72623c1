"""How often something is done in one process, and when it is done again."""

import random
import threading
import time
from dataclasses import dataclass
from datetime import timedelta


class Pace:
    """A limit of once in a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._next = 0.0

    def is_due(self) -> bool:
        """Return True if enough time has passed since it last did."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return False
            self._next = now + self._seconds
            return True


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses after failed attempts: exponential, with jitter."""

    first: timedelta
    factor: int
    longest: timedelta

    def after(self, failures: int) -> timedelta:
        """Return a pause between half and all of what so many failures make.

        The draw leaves the generator that others in the process use as it is.
        """
        pause = min(self.first * self.factor ** max(0, failures - 1), self.longest)
        return pause * random.SystemRandom().uniform(0.5, 1)
