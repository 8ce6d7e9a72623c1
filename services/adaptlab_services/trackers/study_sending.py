"""Sending one study to a tracker.

A process can die between sending a run and recording it. The next one finds the run by its tag or
its log's id, so nothing is doubled.
"""

import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import TrackerRefused
from adaptlab_answers.studies import StudyView
from adaptlab_answers.trackers.board import Board
from adaptlab_answers.trackers.mlflow import MlflowExperiment
from adaptlab_answers.trackers.tracked_runs import TrackedRun, tracked_runs
from adaptlab_answers.trackers.trackio import TrackioProject
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.errors import Absent
from adaptlab_services.hub.sealing import Seal, Unsealable
from adaptlab_services.limits.addresses import AddressRules
from adaptlab_services.settings import Settings
from adaptlab_services.studies import studies
from adaptlab_services.trackers import due_studies
from adaptlab_services.trackers.due_studies import ClaimedStudy, Sending, TrackerNotHeld
from adaptlab_services.trackers.study_results import ServerStudyResults
from adaptlab_services.trackers.tracker_requests import TrackerRequests
from adaptlab_services.trackers.trackers import place_of

SHORTEST_PAUSE = 30.0
"""Seconds until a study that runs is sent again."""
PAUSE_FACTOR = 20
"""How much longer than the sending the pause is, so that large studies are sent more rarely."""
MOST_SECONDS = 300.0
"""How long a study keeps other studies waiting, before it continues after them."""
HOLD_SECONDS = 10.0
SLOW = f"The tracker took no job of the study within {MOST_SECONDS:g} s."
UNREADABLE = "The study could not be read. See the log of the API."
UNSEALABLE = "The server's key does not open the token. Add the tracker again."

log = logging.getLogger(__name__)


class Interrupted(Exception):
    """The sending is continued later."""


class StudySending:
    """One attempt to send a study.

    Args:
        sessions: the database, with every project visible.
        settings: those of the server.
        comparisons: computes comparisons.
        claimed: the study and its tracker.
        is_stopped: returns True if the process ends.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        settings: Settings,
        comparisons: ComparisonRuns,
        claimed: ClaimedStudy,
        is_stopped: Callable[[], bool],
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._comparisons = comparisons
        self._claimed = claimed
        self._is_stopped = is_stopped
        self._begun = self._held = time.monotonic()
        self._sent = dict(claimed.sent)

    def run(self) -> None:
        """Send the study and record the outcome; raises `TrackerNotHeld`."""
        sending = self._sending()
        with self._sessions.begin() as session:
            due_studies.record(session, self._claimed, sending)

    def _sending(self) -> Sending:
        try:
            study = self._study()
            self._send(study)
        except Absent:  # deleted since
            return Sending(self._sent, None)
        except TrackerRefused as error:
            return Sending(self._sent, None, str(error))
        except Unsealable:
            return Sending(self._sent, None, UNSEALABLE)
        except Interrupted:
            is_slow = not self._is_stopped() and self._sent == self._claimed.sent
            return Sending(self._sent, timedelta(0), SLOW if is_slow else None)
        except (TrackerNotHeld, SQLAlchemyError):
            raise
        except Exception:
            log.exception("study %s could not be read for a tracker", self._claimed.study_id)
            return Sending(self._sent, None, UNREADABLE)
        if study.terminal:
            return Sending(self._sent, None)
        seconds = max(SHORTEST_PAUSE, PAUSE_FACTOR * (time.monotonic() - self._begun))
        return Sending(self._sent, timedelta(seconds=seconds))

    def _study(self) -> StudyView:
        with self._sessions() as session:
            return studies.get(session, str(self._claimed.study_id))

    def _send(self, study: StudyView) -> None:
        claimed = self._claimed
        token = None
        if claimed.sealed is not None:
            place = place_of(claimed.project_id, claimed.kind, claimed.url)
            token = Seal.of(self._settings).open(claimed.sealed, place)
        rules = AddressRules.of(self._settings)
        results = ServerStudyResults(
            self._sessions, self._comparisons, study, self._settings.public_url
        )
        runs = tracked_runs(results, study, dict(self._sent))
        with TrackerRequests(
            claimed.kind, claimed.url, token, rules, self._before_request
        ) as requests:
            kinds: dict[str, type[MlflowExperiment | TrackioProject]]
            kinds = {"mlflow": MlflowExperiment, "trackio": TrackioProject}
            board: Board = kinds[claimed.kind](requests, claimed.experiment)
            board.send(self._noted(runs))

    def _noted(self, runs: Iterator[TrackedRun]) -> Iterator[TrackedRun]:
        """Yield runs, and note each ended job when it and its seeds are there."""
        job: TrackedRun | None = None
        for run in runs:
            if len(run.path) <= 2:
                self._note(job)
                job = run if len(run.path) == 2 else None
            yield run
        self._note(job)

    def _note(self, job: TrackedRun | None) -> None:
        if job is not None and job.ended_at is not None:
            self._sent[job.key] = job.stamp

    def _before_request(self) -> None:
        now = time.monotonic()
        if self._is_stopped() or now - self._begun > MOST_SECONDS:
            raise Interrupted
        if now - self._held > HOLD_SECONDS:
            with self._sessions.begin() as session:
                due_studies.hold(session, self._claimed.tracker_id, self._claimed.number)
            self._held = now
