"""The courier: a thread of a worker or of the API that sends webhooks.

Sending can take seconds, so no task of Celery does it: a task only wakes the thread of a worker.
That of the API wakes by itself, so that messages are sent where all workers use the API.
"""

import logging
import threading
from typing import TYPE_CHECKING

from sqlalchemy import exists, func, or_, select
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.tables import WebhookDelivery, WebhookEvent
from adaptlab_services.outages import errors_logged
from adaptlab_services.pace import Pace
from adaptlab_services.settings import Settings

if TYPE_CHECKING:
    from adaptlab_services.webhooks.delivering import Deliveries

MOST_ROUNDS = 1000
"""Rounds after one call, of up to 200 messages or a quarter of a second each."""
FORGET_SECONDS = 3600.0

log = logging.getLogger(__name__)


class Courier:
    """Deliveries of webhooks in a thread of their own.

    Any number may run at once. What is due is in the database, so a call that is lost costs one
    interval of beat.

    Args:
        sessions: the database, with every project visible.
        settings: the settings of webhooks.
        interval: seconds between looks without a call; None for calls only.
    """

    def __init__(
        self, sessions: sessionmaker[Session], settings: Settings, interval: float | None = None
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._interval = interval
        self._deliveries: Deliveries | None = None
        self._forgetting = Pace(FORGET_SECONDS)
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
        if self._deliveries is not None:
            self._deliveries.close()

    def _serve(self) -> None:
        while True:
            is_called = self._called.wait(self._interval)
            if self._is_closed:
                return
            self._called.clear()
            with errors_logged(log, "the courier failed; it will retry"):
                if is_called or self._is_anything_due():
                    self._deliver()

    def _is_anything_due(self) -> bool:
        now = func.clock_timestamp()
        pending = WebhookDelivery.state == "pending", WebhookDelivery.next_attempt_at <= now
        query = select(or_(exists(select(WebhookEvent.id)), exists().where(*pending)))
        with self._sessions() as session:
            return session.scalars(query).one()

    def _deliver(self) -> None:
        if self._deliveries is None:
            # Late: processes start faster without it, and comparisons load numpy's statistics.
            from adaptlab_services.webhooks.delivering import Deliveries

            self._deliveries = Deliveries(self._sessions, self._settings)
        for _ in range(MOST_ROUNDS):
            if self._is_closed or not self._deliveries.round():
                break
        if self._forgetting.is_due():
            self._deliveries.forget_old()
