"""When a training saves its state."""

STATE_BYTES_PER_SECOND = 10 * 2**20
"""The most that one training stores of its state, on average.

Full fine-tuning of 100 million parameters has a state of over a gigabyte per replicate.
"""


class SaveTimes:
    """The times at which a training saves its state.

    It is saved every `seconds`, and large states less often. Times are those of one clock, in
    seconds; `begun` is that of the start.
    """

    def __init__(self, seconds: float, begun: float) -> None:
        self._seconds = self._interval = seconds
        self._last = begun

    def is_due(self, now: float) -> bool:
        """Return True if the state is to be saved now, which counts as done."""
        if now - self._last < self._interval:
            return False
        self._last = now
        return True

    def saved(self, size: int) -> None:
        """Take note of the bytes of a saved state."""
        self._interval = max(self._seconds, size / STATE_BYTES_PER_SECOND)
