"""Comparisons of a study or of selected jobs, as values or as CSV."""

import math
import time
from collections.abc import Callable, Sequence

import httpx

from adaptlab_answers.comparisons import ComparisonProgress
from adaptlab_client.display.comparison_tables import JobComparison, StudyComparison
from adaptlab_client.errors import WaitTimedOut
from adaptlab_client.transport.connection import Connection, Identity, Query, Request, path_of

OnProgress = Callable[[ComparisonProgress], None]
COMPUTING = 202
RETRY_SECONDS = 1.0


class Comparisons:
    """Comparisons of one server; `level` and `margin` default to the server's.

    The server computes a large comparison once, in up to half a minute. Each method waits for it:
    `on_progress` is called about once a second with the number of tables computed, and
    `WaitTimedOut` is raised after `timeout` seconds.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def study(
        self,
        study: Identity,
        *,
        level: float | None = None,
        margin: float | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> StudyComparison:
        """Return the comparison of a study, by id or name, with the scores so far.

        Raises `NotFound`.
        """
        request = _of_study(study, {"level": level, "margin": margin})
        answer = self._computed(request, timeout, on_progress)
        return self._connection.read(request, answer, StudyComparison)

    def jobs(
        self,
        jobs: Sequence[Identity],
        *,
        level: float | None = None,
        margin: float | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> JobComparison:
        """Return the comparison of selected adaptations.

        Raises `NotFound`, and `InvalidRequest` for jobs that cannot be compared.
        """
        request = _of_jobs(jobs, {"level": level, "margin": margin})
        answer = self._computed(request, timeout, on_progress)
        return self._connection.read(request, answer, JobComparison)

    def csv(
        self,
        *,
        study: Identity | None = None,
        jobs: Sequence[Identity] = (),
        level: float | None = None,
        margin: float | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> str:
        """Return a comparison as CSV, one line per method and cell."""
        query: Query = {"level": level, "margin": margin, "format": "csv"}
        request = _of_jobs(jobs, query) if study is None else _of_study(study, query)
        return self._computed(request, timeout, on_progress).text

    def _computed(
        self, request: Request, timeout: float | None, on_progress: OnProgress | None
    ) -> httpx.Response:
        """Send until the comparison is computed, and return the response."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while (answer := self._connection.send(request)).status_code == COMPUTING:
            progress = self._connection.read(request, answer, ComparisonProgress)
            if on_progress:
                on_progress(progress)
            if time.monotonic() >= deadline:
                ready = f"{progress.computed} of {progress.tables} tables computed"
                raise WaitTimedOut([f"the comparison ({ready})"], timeout or 0.0)
            retry_after = answer.headers.get("Retry-After", "")
            seconds = float(retry_after) if retry_after.isdecimal() else RETRY_SECONDS
            self._connection.retries.pause(1, seconds)
        return answer


def _of_study(study: Identity, query: Query) -> Request:
    return Request("GET", path_of("studies", study, "comparison"), query=query)


def _of_jobs(jobs: Sequence[Identity], query: Query) -> Request:
    return Request("GET", path_of("comparison"), query={**query, "job": [*map(str, jobs)]})
