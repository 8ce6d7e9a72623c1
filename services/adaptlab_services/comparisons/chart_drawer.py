"""Single charts as SVG, drawn by a process that is kept for a while.

A first chart takes more than a second of processor time, a further one 50 ms. The process holds 100
MB and ends when no chart was asked for.
"""

import hashlib
import threading
from collections import OrderedDict
from subprocess import Popen

from adaptlab.charts import Chart
from adaptlab_services.comparisons.plot_drawing import DrawingFailed, picture_by, started

KEPT_SECONDS = 60.0
LONGEST_SECONDS = 20.0
"""For one chart, after which the process is killed."""
MOST_KEPT, LARGEST_KEPT = 64, 2**18
"""Pictures that are kept, and bytes of the largest."""


class ChartDrawer:
    """Draws one chart at a time, and keeps the latest pictures."""

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        self._kept_seconds = kept_seconds
        self._lock = threading.Lock()
        self._process: Popen[bytes] | None = None
        self._end: threading.Timer | None = None
        self._pictures: OrderedDict[bytes, bytes] = OrderedDict()

    def draw(self, chart: Chart, digest_of: bytes) -> bytes:
        """Return a chart as SVG; `digest_of` is its text, equal for equal charts.

        Raises:
            DrawingFailed: the process ended, or took too long.
        """
        key = hashlib.sha256(digest_of).digest()
        with self._lock:
            picture = self._pictures.pop(key, None) or self._drawn(chart)
            if len(picture) <= LARGEST_KEPT:
                self._pictures[key] = picture
            if len(self._pictures) > MOST_KEPT:
                self._pictures.popitem(last=False)
            return picture

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _drawn(self, chart: Chart) -> bytes:
        if self._end is not None:
            self._end.cancel()
        if self._process is None or self._process.poll() is not None:
            self._process = started()
        limit = threading.Timer(LONGEST_SECONDS, self._process.kill)
        limit.daemon = True
        limit.start()
        try:
            picture = picture_by(self._process, chart)
        except DrawingFailed:
            self._stop()
            raise
        finally:
            limit.cancel()
        self._end = threading.Timer(self._kept_seconds, self._end_unless_busy, (self._process,))
        self._end.daemon = True
        self._end.start()
        return picture

    def _end_unless_busy(self, process: Popen[bytes]) -> None:
        """End the process, unless it draws or another has taken its place."""
        if self._lock.acquire(blocking=False):
            try:
                if self._process is process and self._end is threading.current_thread():
                    self._stop()
            finally:
                self._lock.release()

    def _stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
