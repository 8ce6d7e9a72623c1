"""Periodic duties of workers: ring again for work that was not claimed."""

import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.leases.claiming import queues_with_work

Ring = Callable[[Sequence[str]], None]


class Maintenance:
    """The periodic duties; any number of workers may perform them.

    Args:
        sessions: the database.
        ring: wakes the workers that serve some queues.
        pending: returns the number of pending doorbells of a queue.
        pace: seconds within which a repeated request is ignored, so that messages accumulated
            while no worker ran are processed at once. Messages do not expire instead, because
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
        """Ring for queues with work but without a pending doorbell."""
        if not self._sweeping.is_due():
            return
        with self._sessions.begin() as session:
            queues = queues_with_work(session)
        # If a doorbell is pending, no worker serves the queue; more would only accumulate.
        self._ring([queue for queue in queues if not self._pending(queue)])


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
