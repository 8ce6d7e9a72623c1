"""The sender: threads of the API that send studies to trackers.

What is due is in the database, so any number of processes may do so at once. One that dies is
replaced by another after `due_studies.HOLD`. Only the API has the key of the tokens, so workers
send nothing.
"""

import logging
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.outages import errors_logged
from adaptlab_services.settings import Settings
from adaptlab_services.trackers import due_studies
from adaptlab_services.trackers.due_studies import ClaimedStudy, TrackerNotHeld

if TYPE_CHECKING:
    from adaptlab_services.comparisons.comparison_runs import ComparisonRuns

MOST_AT_ONCE = 4
"""Studies that one process sends at a time, each of another project."""
LOOK_SECONDS = 1.0
CLOSE_SECONDS = 5.0

log = logging.getLogger(__name__)


class TrackerSender:
    """Sends studies to trackers in threads of its own.

    Args:
        sessions: the database, with every project visible.
        settings: those of the server.
        interval: seconds between looks while nothing is due.
    """

    def __init__(
        self, sessions: sessionmaker[Session], settings: Settings, interval: float
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._interval = interval
        self._comparisons: ComparisonRuns | None = None
        self._closed = threading.Event()
        self._sendings: dict[Future[None], int] = {}
        self._workers = ThreadPoolExecutor(MOST_AT_ONCE, "tracker")
        self._thread = threading.Thread(target=self._serve, name="trackers", daemon=True)

    def start(self) -> None:
        """Start to look for studies."""
        self._thread.start()

    def close(self) -> None:
        """Leave what is being sent to other processes, and stop looking."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=CLOSE_SECONDS)
        wait(self._sendings, CLOSE_SECONDS)
        self._workers.shutdown(wait=False, cancel_futures=True)
        if self._comparisons is not None:
            self._comparisons.close()

    def round(self) -> int:
        """Begin to send what is due; return the number of studies being sent."""
        self._sendings = {one: project for one, project in self._sendings.items() if not one.done()}
        while len(self._sendings) < MOST_AT_ONCE and not self._closed.is_set():
            with self._sessions.begin() as session:
                if not due_studies.is_anything_due(session):
                    break
                claimed = due_studies.claim(session, set(self._sendings.values()))
            if claimed is None:
                break
            self._sendings[self._workers.submit(self._send, claimed)] = claimed.project_id
        wait(self._sendings, LOOK_SECONDS, FIRST_COMPLETED)
        return len(self._sendings)

    def _serve(self) -> None:
        while not self._closed.is_set():
            with errors_logged(log, "the sender failed; it will retry"):
                if self.round():
                    continue
            self._closed.wait(self._interval)

    def _send(self, claimed: ClaimedStudy) -> None:
        # Late: processes start faster without them.
        from adaptlab_services.trackers.study_sending import StudySending

        number, opened = claimed.tracker_id, (self._sessions, self._settings)
        with errors_logged(log, "tracker %d: a study was not sent; it will retry", number):
            try:
                StudySending(*opened, self._runs(), claimed, self._closed.is_set).run()
            except TrackerNotHeld:
                log.info("tracker %d: removed, or taken over by another process", number)

    def _runs(self) -> "ComparisonRuns":
        from adaptlab_services.comparisons.comparison_runs import ComparisonRuns

        if self._comparisons is None:
            self._comparisons = ComparisonRuns(self._sessions)
        return self._comparisons
