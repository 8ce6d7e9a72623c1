"""An alarm that ends the process of a strict run if its worker is silent."""

import os
import signal
import threading
import time


class Alarm:
    """A timer that ends this process at a time of the monotonic clock.

    The kernel sends a signal that nothing handles. So no thread has to be scheduled, however long a
    kernel of the engine runs, and a suspended process ends when it resumes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run: str | None = None

    def begin(self, run: str, until: float | None) -> None:
        """Start the timer for a run that must end by `until`; None for no limit."""
        with self._lock:
            self._run = run
            self._set(until)

    def postpone(self, run: str, until: float) -> None:
        """Extend a run's time; no effect if that run is over."""
        with self._lock:
            if run == self._run:
                self._set(until)

    def end(self) -> None:
        """Stop the timer at the end of the run."""
        with self._lock:
            self._run = None
            self._set(None)

    @staticmethod
    def _set(until: float | None) -> None:
        if until is None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return
        left = until - time.monotonic()
        if left <= 0:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, left)
