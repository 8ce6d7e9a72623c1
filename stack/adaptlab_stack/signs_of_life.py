"""Signs that a process makes progress: its log grows, or it computes."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

SILENCE_SECONDS = 300.0
"""Longest time without a sign of life before a start counts as failed."""
SAMPLE_SECONDS = 10.0
COMPUTING = 0.1
"""Least share of one core; asking an unready server again and again takes less."""


class SignsOfLife:
    """Time since a process last wrote to its log or computed.

    Args:
        log: the file that the process writes.
        clock: seconds.
    """

    def __init__(self, log: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._last = self._sampled = clock()
        self._size = _size(log)
        self._process: int | None = None
        self._seconds = 0.0

    def silence(self, process: int) -> float:
        """Return the seconds since the last sign of life of this process."""
        now, size = self._clock(), _size(self._log)
        if size != self._size:
            self._size, self._last = size, now
        elapsed = now - self._sampled
        if process != self._process or elapsed >= SAMPLE_SECONDS:
            seconds = processor_seconds(process)
            if process == self._process and seconds - self._seconds >= COMPUTING * elapsed:
                self._last = now
            self._process, self._seconds, self._sampled = process, seconds, now
        return now - self._last


def processor_seconds(process: int) -> float:
    """Return the known processor time of a process and its children."""
    total = 0.0
    with suppress(psutil.Error):
        root = psutil.Process(process)
        for one in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                times = one.cpu_times()
                total += times.user + times.system
    return total


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
