"""Refusals in the audit log: so many a minute of one person or address, the others counted.

Somebody who fails ten thousand times is a few lines in the log and a number, and hides nobody else.
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
"""Of one person, or of one address where nobody could be told."""
UNKNOWN_A_MINUTE = 200
"""Of everybody who could not be told, as somebody may have many addresses."""
MINUTE = 60.0
MOST_KNOWN = 1_000

Clock = Callable[[], float]


@dataclass(slots=True)
class _Minute:
    """What came from one side since `began`; `latest` is the last that was left out."""

    began: float
    written: int = 0
    left_out: int = 0
    latest: Entry | None = None

    def leave_out(self, entry: Entry) -> None:
        """Count a refusal that is not written down."""
        self.left_out += 1
        self.latest = entry


class Refusals:
    """Says which refusals are written down, and sums up those that are not."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._minutes: OrderedDict[str, _Minute] = OrderedDict()
        self._unknown = _Minute(clock())

    def due(self, entry: Entry) -> Sequence[Entry]:
        """What is to be written now: sums of minutes that are over, and this one if there is room.

        A sum has the action `refusals_left_out`, and how many in its details.
        """
        with self._lock:
            now = self._clock()
            found = self._sums(lambda minute: now - minute.began >= MINUTE)
            if now - self._unknown.began >= MINUTE:
                found += _sum(self._unknown)
                self._unknown = _Minute(now)
            is_unknown = entry.principal is None
            if is_unknown and self._unknown.written >= UNKNOWN_A_MINUTE:
                # Of all addresses together: a sum for each would be as many entries as addresses.
                self._unknown.leave_out(entry)
                return found
            minute = self._minutes.setdefault(_side(entry), _Minute(now))
            if minute.written >= REFUSALS_A_MINUTE:
                minute.leave_out(entry)
            else:
                minute.written += 1
                self._unknown.written += is_unknown
                found.append(entry)
            if len(self._minutes) > MOST_KNOWN:
                _, oldest = self._minutes.popitem(last=False)
                found += _sum(oldest)
            return found

    def rest(self) -> Sequence[Entry]:
        """The sums of all that was left out, at the end."""
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
        request_id=uuid4(),
        details=details,
    )
    return (summed,)


def _side(entry: Entry) -> str:
    who = entry.principal
    return f"address {subscriber(entry.address)}" if who is None else f"person {who.user_id}"
