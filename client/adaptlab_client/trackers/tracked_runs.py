"""The runs of a study, as a client reads it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from adaptlab.comparisons.group_scores import GroupScore
from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab.runs.events import ReplicateResult
from adaptlab_answers.jobs import JobView
from adaptlab_answers.queries import Cell
from adaptlab_answers.results import Curve, EvaluationView
from adaptlab_answers.studies import StudyView
from adaptlab_answers.trackers import tracked_runs as mapping
from adaptlab_answers.trackers.tracked_runs import FIELDS, TrackedRun

if TYPE_CHECKING:
    from adaptlab_client.client import Client


def tracked_runs(client: "Client", study: StudyView) -> Iterator[TrackedRun]:
    """Yield the run of a study, then of its jobs that have begun, with seeds."""
    return mapping.tracked_runs(ClientStudyResults(client, study.id), study)


class ClientStudyResults:
    """What a client reads of a study; see `StudyResults`."""

    def __init__(self, client: "Client", study_id: UUID) -> None:
        self._client = client
        self._study = study_id

    def tables(self) -> Sequence[TableComparison]:
        """Return its comparison."""
        return self._client.comparisons.study(self._study).tables

    def jobs(self) -> Iterable[JobView]:
        """Return its jobs."""
        return self._client.studies.jobs(self._study)

    def scores(self) -> Iterable[Mapping[str, Cell]]:
        """Return the rows of its results."""
        return self._client.results.query(f"study = {self._study}", fields=FIELDS).rows()

    def curves(self, job_id: UUID, names: Sequence[str], most: int) -> Sequence[Curve]:
        """Return curves of a job; without `names`, all of them."""
        return self._client.jobs.metrics(job_id, names=names, max_points=most)

    def evaluations(self, job_id: UUID) -> Sequence[EvaluationView]:
        """Return the scores of a job's adapted models."""
        return self._client.jobs.evaluations(job_id, attached=True)

    def group_scores(self, job_id: UUID) -> Sequence[GroupScore]:
        """Return the scores of groups of standard tasks of a job."""
        return self._client.jobs.group_scores(job_id)

    def replicates(self, job_id: UUID) -> Sequence[ReplicateResult]:
        """Return the replicates of a job."""
        return self._client.jobs.replicates(job_id)

    def page(self, kind: str, name: str) -> str:
        """Return the address of a page."""
        return f"{self._client.url.rstrip('/')}/{kind}/{name}"
