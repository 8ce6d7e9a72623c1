"""The planner: a thread of every API that continues asked studies.

Any number may run at once, in any number of processes; each decision is taken once.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.outages import errors_logged
from adaptlab_services.studies.question_plans import plan_due

Ring = Callable[[Sequence[str]], None]

LEFT_SECONDS = 60.0
"""How long a study is left alone that could not be planned."""

log = logging.getLogger(__name__)


class QuestionPlanner:
    """Decisions about what runs next, some seconds after a pass has ended.

    Args:
        sessions: the database, with every project visible.
        ring: wakes the workers that serve some queues.
        interval: seconds between two looks.
        most_jobs: limit on the cells of a study.
    """

    def __init__(
        self, sessions: sessionmaker[Session], ring: Ring, interval: float, most_jobs: int
    ) -> None:
        self._sessions = sessions
        self._ring = ring
        self._interval = interval
        self._most_jobs = most_jobs
        self._left: dict[UUID, float] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="questions", daemon=True)

    def start(self) -> None:
        """Start to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking; wait a few seconds for a decision under way."""
        self._closed.set()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        while not self._closed.wait(self._interval):
            with errors_logged(log, "the planner of questions failed; it will retry"):
                self._look()

    def _look(self) -> None:
        now = time.monotonic()
        self._left = {study: until for study, until in self._left.items() if until > now}
        planned = plan_due(self._sessions, self._most_jobs, without=self._left.keys())
        self._left |= dict.fromkeys(planned.failed, now + LEFT_SECONDS)
        if planned.queues:
            self._ring(planned.queues)
