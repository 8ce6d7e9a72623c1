"""The reaper: takes back leases that ended, and trusts its own eyes first.

A thread of every worker, so that it needs neither the broker nor beat; any number may run at once.
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

Ring = Callable[[Sequence[str]], None]

LONGEST_GAP = 3.0  # intervals between two looks, beyond which they are no unbroken row

log = logging.getLogger(__name__)


class Reaper:
    """Gives the jobs of workers that are not heard of any more to others.

    It does so only after it has itself seen the database without a break for `arm_seconds`. When
    the database comes back after an outage, every lease has ended because nobody could renew it:
    the workers that still train get that long to be heard of.

    Args:
        sessions: the database.
        ring: wakes the workers that serve some queues.
        interval: seconds between two looks.
        arm_seconds: how long the database must have been there before anything is taken back.
        clock: seconds that only go forward.
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
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="reaper", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more; a look under way is not waited for long."""
        self._closed.set()
        self._thread.join(timeout=1)

    def look(self) -> None:
        """See whether the database is there, and once armed take back what ended.

        An error with which the database answers says that it is there: it keeps the reaper armed.
        """
        asked_at = self._clock()
        try:
            reaped = self._look(is_armed=self._is_armed(asked_at))
        except SQLAlchemyError as error:
            if is_outage(error):
                log.warning("the reaper is disarmed, the database cannot be asked: %s", error)
                self._unbroken_since = None
                return
            log.exception("the reaper was refused; it looks again later")
            reaped = ReapedLeases(0, ())
        seen_at = self._clock()
        if self._unbroken_since is None or self._is_gap(seen_at):
            self._unbroken_since = asked_at
        self._seen_at = seen_at
        if reaped.count:
            log.warning("took back %d leases that ended", reaped.count)
        if reaped.queues:
            self._ring(reaped.queues)

    def _serve(self) -> None:
        while not self._closed.wait(self._interval):
            try:
                self.look()
            except Exception:
                log.exception("the reaper failed; it looks again later")

    def _look(self, *, is_armed: bool) -> ReapedLeases:
        with one_by_one(self._sessions) as session:
            if not is_due(session) or not is_armed:  # asked in any case: whether it is there
                return ReapedLeases(0, ())
        with self._sessions.begin() as session:
            return reap(session)

    def _is_armed(self, now: float) -> bool:
        if self._arm_seconds <= 0:
            return True
        since = self._unbroken_since
        return since is not None and not self._is_gap(now) and now - since >= self._arm_seconds

    def _is_gap(self, now: float) -> bool:
        """Whether so much time has passed since the last look that nobody knows what happened."""
        return now - self._seen_at > LONGEST_GAP * self._interval
