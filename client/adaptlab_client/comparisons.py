"""Comparisons: of a study, or of any jobs, as values or as comma-separated values."""

from collections.abc import Sequence

from adaptlab_client.comparison_answers import JobComparison, StudyComparison
from adaptlab_client.connection import Connection, Query, Request, path_of


class Comparisons:
    """What the scores of one server say; `level` and `margin` are the server's unless given.

    Scores of 64 cells take the server about two seconds.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def study(
        self, study: str, *, level: float | None = None, margin: float | None = None
    ) -> StudyComparison:
        """The comparison of a study by id or name, as far as it has scores; raises `NotFound`."""
        request = _of_study(study, {"level": level, "margin": margin})
        return self._connection.ask(request, StudyComparison)

    def jobs(
        self, jobs: Sequence[str], *, level: float | None = None, margin: float | None = None
    ) -> JobComparison:
        """The comparison of any adaptations; raises `NotFound` and `InvalidRequest`."""
        request = _of_jobs(jobs, {"level": level, "margin": margin})
        return self._connection.ask(request, JobComparison)

    def csv(
        self,
        *,
        study: str | None = None,
        jobs: Sequence[str] = (),
        level: float | None = None,
        margin: float | None = None,
    ) -> str:
        """The table of a study, or else of jobs, one line a row of every cell."""
        query: Query = {"level": level, "margin": margin, "format": "csv"}
        request = _of_jobs(jobs, query) if study is None else _of_study(study, query)
        return self._connection.send(request).text


def _of_study(study: str, query: Query) -> Request:
    return Request("GET", path_of("studies", study, "comparison"), query=query)


def _of_jobs(jobs: Sequence[str], query: Query) -> Request:
    return Request("GET", path_of("comparison"), query={**query, "job": [*jobs]})
