"""A limit on how often something is done in one process."""

import threading
import time


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
