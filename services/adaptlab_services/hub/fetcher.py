"""The fetcher: threads of the API that fetch models from a hub.

What is due is in the database, so any number of processes may do so at once. One that dies is
replaced by another after `due_fetches.HOLD`, which goes on after the last stored chunk.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.hub import due_fetches, fetches
from adaptlab_services.hub.fetching import FetchAttempt
from adaptlab_services.hub.hub_access import HubAccess
from adaptlab_services.hub.hub_child import HubPatience
from adaptlab_services.lifecycle.transitions import fail_unfetched
from adaptlab_services.outages import errors_logged
from adaptlab_services.pace import Pace
from adaptlab_services.settings import Settings

Ring = Callable[[Sequence[str]], None]

MOST_AT_ONCE = 2
"""Fetches of one process at a time."""
MOST_PLANS = 2
"""Plans that it makes besides, for requests that wait for them."""
LOOK_SECONDS = 1.0
FORGET_SECONDS = 3600.0
CLOSE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Fetcher:
    """Fetches of models in threads of their own, unless the hub is off.

    Args:
        sessions: the database, with every project visible.
        settings: those of the hub.
        ring: wakes the workers that serve some queues.
        patience: how long a hub is waited for.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        settings: Settings,
        ring: Ring,
        patience: HubPatience | None = None,
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._ring = ring
        self._patience = patience
        self._holder = f"{socket.gethostname()}:{os.getpid()}"
        self._forgetting = Pace(FORGET_SECONDS)
        self._closed = threading.Event()
        self._attempts: dict[Future[None], FetchAttempt] = {}
        self._workers = ThreadPoolExecutor(MOST_AT_ONCE + MOST_PLANS, "fetch")
        self._thread = threading.Thread(target=self._serve, name="fetcher", daemon=True)

    def start(self) -> None:
        """Start to look for fetches."""
        if self._settings.hub == "on":
            self._thread.start()

    def close(self) -> None:
        """Leave what is being fetched to other processes, and stop looking."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=CLOSE_SECONDS)
        for attempt in self._attempts.values():
            attempt.stop()
        wait(self._attempts, CLOSE_SECONDS)
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with errors_logged(log, "the fetcher failed; it will retry"):
                self._look()

    def _look(self) -> None:
        self._attempts = {one: what for one, what in self._attempts.items() if not one.done()}
        with self._sessions.begin() as session:
            fetches.cancel_unwanted(session)
            fail_unfetched(session)
        most = MOST_AT_ONCE + MOST_PLANS
        while (count := len(self._attempts)) < most and not self._closed.is_set():
            attempt = self.claim(only_plans=count >= MOST_AT_ONCE)
            if attempt is None:
                break
            self._attempts[self._workers.submit(self._run, attempt)] = attempt
        if self._forgetting.is_due():
            with self._sessions.begin() as session:
                due_fetches.forget_old(session)

    def claim(self, *, only_plans: bool = False) -> FetchAttempt | None:
        """Take a fetch that is due, if there is one."""
        alias = HubAccess.of(self._settings, None).hosts.alias
        with self._sessions.begin() as session:
            if not due_fetches.is_anything_due(session, alias):
                return None
            claimed = due_fetches.claim(session, alias, self._holder, only_plans=only_plans)
        if claimed is None:
            return None
        return FetchAttempt(self._sessions, self._settings, claimed, self._patience)

    def _run(self, attempt: FetchAttempt) -> None:
        queues: Sequence[str] = ()
        with errors_logged(log, "a fetch failed; it will be tried again"):
            queues = attempt.run()
        if queues:
            self._ring(queues)
