"""The results of a study for trackers, read by the server itself."""

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.comparisons.group_scores import GroupScore
from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab.runs.events import ReplicateResult
from adaptlab_answers.jobs import JobView
from adaptlab_answers.queries import Cell
from adaptlab_answers.results import Curve, EvaluationView
from adaptlab_answers.studies import StudyView
from adaptlab_answers.trackers.tracked_runs import FIELDS
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.comparisons import StudyQuestion
from adaptlab_services.jobs import lists
from adaptlab_services.jobs.lists import NEWEST, JobQuery
from adaptlab_services.results import result_queries, results
from adaptlab_services.results.result_queries import Question

PAGE = 100
"""Jobs or results that are read at once."""


class ServerStudyResults:
    """What the server reads of a study; see `StudyResults`.

    Args:
        sessions: the database, with every project visible.
        comparisons: computes comparisons.
        study: the study.
        public_url: address of the server.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        comparisons: ComparisonRuns,
        study: StudyView,
        public_url: str | None,
    ) -> None:
        self._sessions = sessions
        self._comparisons = comparisons
        self._study = study
        self._public_url = public_url

    def tables(self) -> Sequence[TableComparison]:
        """Return the comparison of a study that has ended.

        A verdict that nobody has asked for is not computed again whenever a job ends.
        """
        if not self._study.terminal:
            return ()
        with self._sessions() as session:
            read = StudyQuestion(str(self._study.id), view=self._study).read(session)
        return self._comparisons.tables(read)

    def jobs(self) -> Iterator[JobView]:
        """Yield its jobs."""
        token: str | None = None
        while True:
            query = JobQuery("", self._study.id, NEWEST, PAGE, token, "include")
            with self._sessions() as session:
                page = lists.page(session, query)
            yield from page.data
            if (token := page.next_page_token) is None:
                return

    def scores(self) -> Iterator[Mapping[str, Cell]]:
        """Yield the rows of its results."""
        question = Question("results", f"study = {self._study.id}", fields=FIELDS)
        token: str | None = None
        while True:
            with self._sessions() as session:
                page = result_queries.rows(session, question, PAGE, token)
            yield from page.data
            if (token := page.next_page_token) is None:
                return

    def curves(self, job_id: UUID, names: Sequence[str], most: int) -> Sequence[Curve]:
        """Return curves of a job; without `names`, all of them."""
        with self._sessions() as session:
            return results.metrics(session, job_id, names, max_points=most).data

    def evaluations(self, job_id: UUID) -> Sequence[EvaluationView]:
        """Return the scores of a job's adapted models."""
        with self._sessions() as session:
            return results.evaluations(session, job_id, attached=True).data

    def group_scores(self, job_id: UUID) -> Sequence[GroupScore]:
        """Return the scores of groups of standard tasks of a job."""
        with self._sessions() as session:
            return results.groups(session, job_id)

    def replicates(self, job_id: UUID) -> Sequence[ReplicateResult]:
        """Return the replicates of a job."""
        with self._sessions() as session:
            return results.replicates(session, job_id).data

    def page(self, kind: str, name: str) -> str | None:
        """Return the address of a page, None without `public_url`."""
        url = self._public_url
        return None if url is None else f"{url.rstrip('/')}/{kind}/{name}"
