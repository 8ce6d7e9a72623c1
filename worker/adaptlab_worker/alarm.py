"""An alarm that ends the process: what a strict run has instead of a word from its worker."""

import os
import signal
import threading
import time


class Alarm:
    """Ends this process at a moment of the machine's monotonic clock.

    The kernel does it, by a signal that nothing handles. It needs no thread of ours to get its
    turn, however long a kernel of the engine runs, and a process that was stopped itself ends when
    it would go on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run: str | None = None

    def begin(self, run: str, until: float | None) -> None:
        """A run begins, which must have ended at `until`; None if it need not."""
        with self._lock:
            self._run = run
            self._set(until)

    def postpone(self, run: str, until: float) -> None:
        """The run has longer; says nothing to one that is over."""
        with self._lock:
            if run == self._run:
                self._set(until)

    def end(self) -> None:
        """The run is over."""
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
