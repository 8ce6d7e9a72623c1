"""Periodic duties of workers: ring again for work that was not claimed."""

from collections.abc import Callable, Sequence

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.leases.claiming import queues_with_work
from adaptlab_services.pace import Pace

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
