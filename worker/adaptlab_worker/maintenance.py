"""What any worker does for all when beat says so: ring again for work that was left lying."""

import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.leases.claiming import queues_with_work

Ring = Callable[[Sequence[str]], None]


class Maintenance:
    """The periodic duties; any number of workers may have them.

    Args:
        sessions: the database.
        ring: wakes the workers that serve some queues.
        pending: how many doorbells of a queue nobody has answered yet.
        pace: seconds within which a repeated request is ignored; messages that piled up while no
            worker ran are then worked off in no time. Messages do not expire instead, because
            that would compare the clocks of two machines.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        ring: Ring,
        pending: Callable[[str], int],
        pace: float,
    ) -> None:
        self._sessions = sessions
        self._ring = ring
        self._pending = pending
        self._sweeping = Pace(pace)

    def sweep(self) -> None:
        """Ring for queues with work whose doorbell nobody will hear any more."""
        if not self._sweeping.is_due():
            return
        with self._sessions.begin() as session:
            queues = queues_with_work(session)
        # Where a bell still waits, nobody serves the queue; more bells would only pile up.
        self._ring([queue for queue in queues if not self._pending(queue)])


class Pace:
    """Says yes at most once in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._next = 0.0

    def is_due(self) -> bool:
        """Whether enough time has passed since the last yes."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return False
            self._next = now + self._seconds
            return True
