"""The courier: a thread of a worker that sends webhooks when woken.

Sending can take seconds, so no task of Celery does it: a task only wakes the thread.
"""

import logging
import threading
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.settings import Settings
from adaptlab_worker.maintenance import Pace

if TYPE_CHECKING:
    from adaptlab_services.webhooks.delivering import Deliveries

MOST_ROUNDS = 100
"""Rounds after one call, of up to 50 messages each."""
FORGET_SECONDS = 3600.0

log = logging.getLogger(__name__)


class Courier:
    """Deliveries of webhooks in a thread of their own.

    Any number may run at once. What is due is in the database, so a call that is lost costs one
    interval of beat.
    """

    def __init__(self, sessions: sessionmaker[Session], settings: Settings) -> None:
        self._sessions = sessions
        self._settings = settings
        self._called = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="courier", daemon=True)

    def start(self) -> None:
        """Start to wait for calls."""
        self._thread.start()

    def call(self) -> None:
        """Have what is due sent soon; returns at once."""
        self._called.set()

    def close(self) -> None:
        """Send nothing more; wait at most a second for what is being sent."""
        self._is_closed = True
        self._called.set()
        self._thread.join(timeout=1)

    def _serve(self) -> None:
        self._called.wait()
        # Late: a worker starts faster without it, and comparisons load numpy's statistics.
        from adaptlab_services.webhooks.delivering import Deliveries

        deliveries, forgetting = Deliveries(self._sessions, self._settings), Pace(FORGET_SECONDS)
        while not self._is_closed:
            self._called.clear()
            try:
                self._deliver(deliveries)
                if forgetting.is_due():
                    deliveries.forget_old()
            except Exception:
                log.exception("the courier failed; it will retry")
            self._called.wait()

    def _deliver(self, deliveries: "Deliveries") -> None:
        for _ in range(MOST_ROUNDS):
            if self._is_closed or not deliveries.round():
                return
