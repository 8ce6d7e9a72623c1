"""Refusals in the audit log: limited per minute, the rest counted.

Ten thousand failures of one client become a few entries and a number, and hide nobody else's.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from uuid import uuid4

from adaptlab_api.limits.addresses import subscriber
from adaptlab_services.people.audit import REFUSALS_LEFT_OUT, Entry

REFUSALS_A_MINUTE = 20
"""Per user, or per address if the user is unknown."""
UNKNOWN_A_MINUTE = 200
"""Over all unknown users, because one client may have many addresses."""
MINUTE = 60.0
MOST_KNOWN = 1_000

Clock = Callable[[], float]


@dataclass(slots=True)
class _Minute:
    """Refusals since `began`; `latest` is the last one left out."""

    began: float
    written: int = 0
    left_out: int = 0
    latest: Entry | None = None

    def leave_out(self, entry: Entry) -> None:
        """Count a refusal that gets no entry."""
        self.left_out += 1
        self.latest = entry


class Refusals:
    """Decides which refusals become entries, and sums up the others."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._minutes: OrderedDict[str, _Minute] = OrderedDict()
        self._unknown = _Minute(clock())

    def due(self, entry: Entry) -> Sequence[Entry]:
        """Return sums of past minutes, and this entry if within the limit.

        A sum has the action `refusals_left_out` and the number in its details.
        """
        with self._lock:
            now = self._clock()
            due = self._sums(lambda minute: now - minute.began >= MINUTE)
            if now - self._unknown.began >= MINUTE:
                due += _sum(self._unknown)
                self._unknown = _Minute(now)
            is_unknown = entry.principal is None
            if is_unknown and self._unknown.written >= UNKNOWN_A_MINUTE:
                # One sum over all addresses: a sum for each could be thousands of entries.
                self._unknown.leave_out(entry)
                return due
            minute = self._minutes.setdefault(_side(entry), _Minute(now))
            if minute.written >= REFUSALS_A_MINUTE:
                minute.leave_out(entry)
            else:
                minute.written += 1
                self._unknown.written += is_unknown
                due.append(entry)
            if len(self._minutes) > MOST_KNOWN:
                _, oldest = self._minutes.popitem(last=False)
                due += _sum(oldest)
            return due

    def rest(self) -> Sequence[Entry]:
        """Return the sums of everything left out, when the server stops."""
        with self._lock:
            unknown, self._unknown = self._unknown, _Minute(self._clock())
            return [*self._sums(lambda _: True), *_sum(unknown)]

    def _sums(self, is_over: Callable[[_Minute], bool]) -> list[Entry]:
        over = [side for side, minute in self._minutes.items() if is_over(minute)]
        return [entry for side in over for entry in _sum(self._minutes.pop(side))]


def _sum(minute: _Minute) -> Sequence[Entry]:
    if minute.latest is None:
        return ()
    details: dict[str, object] = {"count": minute.left_out, "last_action": minute.latest.action}
    summed = replace(
        minute.latest,
        action=REFUSALS_LEFT_OUT,
        object=None,
        request_id=str(uuid4()),
        details=details,
    )
    return (summed,)


def _side(entry: Entry) -> str:
    who = entry.principal
    return f"address {subscriber(entry.address)}" if who is None else f"person {who.user_id}"
