"""The reaper: a thread of every worker that takes back expired leases.

It needs neither the broker nor beat; any number may run at once.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.session import one_by_one
from adaptlab_services.leases.reaping import ReapedLeases, is_due, reap
from adaptlab_services.outages import is_outage
from adaptlab_worker.loop.reach import Reach

Ring = Callable[[Sequence[str]], None]

LONGEST_GAP = 3.0  # intervals between two looks; longer gaps count as an outage

log = logging.getLogger(__name__)


class Reaper:
    """Return of the jobs of silent workers to the queue.

    It acts only after it has reached the database without a break for `arm_seconds`. When the
    database comes back after an outage, every lease has expired because none could be renewed;
    workers that still train have that time to renew theirs. While interruptions repeat, it takes
    back leases since whose end the database was reachable for that time in all.

    Args:
        sessions: the database.
        ring: wakes the workers that serve some queues.
        interval: seconds between two looks.
        arm_seconds: how long the database must have been reachable before a lease is taken back.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        ring: Ring,
        interval: float,
        arm_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._ring = ring
        self._interval = interval
        self._arm_seconds = arm_seconds
        self._clock = clock
        self._unbroken_since: float | None = None
        self._seen_at = 0.0
        self._reach = Reach(LONGEST_GAP * interval)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="reaper", daemon=True)

    def start(self) -> None:
        """Start to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking; wait at most a second for a look under way."""
        self._closed.set()
        self._thread.join(timeout=1)

    def look(self) -> None:
        """Check the database and, once armed, take back expired leases.

        If the database answers with an error, it is reachable, so the reaper stays armed.
        """
        asked_at = self._clock()
        try:
            reaped = self._look(is_armed=self._is_armed(asked_at))
        except SQLAlchemyError as error:
            if is_outage(error):
                log.warning("the reaper is disarmed: the database is unreachable: %s", error)
                self._unbroken_since = None
                self._reach.interrupted()
                return
            log.exception("the reaper's query failed; it will retry")
            reaped = ReapedLeases(0, ())
        seen_at = self._clock()
        if self._unbroken_since is None or self._is_gap(seen_at):
            self._unbroken_since = asked_at
        self._seen_at = seen_at
        if reaped.count:
            log.warning("took back %d expired leases", reaped.count)
        if reaped.lost_workers:
            log.warning("lost %d workers", reaped.lost_workers)
        if reaped.queues:
            self._ring(reaped.queues)

    def _serve(self) -> None:
        while not self._closed.wait(self._interval):
            try:
                self.look()
            except Exception:
                log.exception("the reaper failed; it will retry")

    def _look(self, *, is_armed: bool) -> ReapedLeases:
        with one_by_one(self._sessions) as session:
            due, now = is_due(session)  # the query also shows that it is reachable
        self._reach.seen(self._clock(), now)
        before = self._reach.time_before(self._arm_seconds)
        if not due or (before is None and not is_armed):
            return ReapedLeases(0, ())
        with self._sessions.begin() as session:
            return reap(session, None if is_armed else before)

    def _is_armed(self, now: float) -> bool:
        if self._arm_seconds <= 0:
            return True
        since = self._unbroken_since
        return since is not None and not self._is_gap(now) and now - since >= self._arm_seconds

    def _is_gap(self, now: float) -> bool:
        """Return True if the last look is too long ago to rule out an outage."""
        return now - self._seen_at > LONGEST_GAP * self._interval
