"""Time in which the database was reachable, between interruptions."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class _Mark:
    """A look: the database's time, and the reachable seconds until then."""

    at: datetime
    reachable: float


class Reach:
    """Reachable seconds, added up over interruptions.

    Args:
        longest_gap: seconds between two looks, above which an interruption lies between them.
    """

    def __init__(self, longest_gap: float) -> None:
        self._longest_gap = longest_gap
        self._reachable = 0.0
        self._seen_at: float | None = None
        self._marks: deque[_Mark] = deque()

    def seen(self, clock: float, at: datetime) -> None:
        """Note that the database answered at a time of ours and of its own."""
        if self._seen_at is not None and clock - self._seen_at <= self._longest_gap:
            self._reachable += clock - self._seen_at
        self._seen_at = clock
        self._marks.append(_Mark(at, self._reachable))

    def interrupted(self) -> None:
        """Note that the database did not answer."""
        self._seen_at = None

    def time_before(self, seconds: float) -> datetime | None:
        """Return the latest time since which it was reachable for `seconds`.

        It is None if it was not reachable for so long.
        """
        marks = self._marks
        while len(marks) > 1 and self._reachable - marks[1].reachable >= seconds:
            marks.popleft()
        if not marks or self._reachable - marks[0].reachable < seconds:
            return None
        return marks[0].at
