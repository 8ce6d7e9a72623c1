"""Results of a job, such as curves, scores, attention and checkpoints."""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from adaptlab.comparisons.group_scores import GroupScore
from adaptlab.comparisons.task_retention import TaskRetention, TextDrift
from adaptlab.runs.events import ReplicateResult
from adaptlab.runs.theory_report import Check
from adaptlab_answers import results
from adaptlab_answers.attention import Maps, MapView
from adaptlab_answers.item_answers import ItemAnswers
from adaptlab_answers.results import AttemptView, CheckpointView, EvaluationView, OutcomeList
from adaptlab_client.display.attention_maps import AttentionMap, AttentionMaps
from adaptlab_client.display.curves import Curves
from adaptlab_client.errors import UnexpectedAnswer
from adaptlab_client.transport import download
from adaptlab_client.transport.connection import Connection, Identity, Request, path_of
from adaptlab_client.transport.paging import entries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class JobResults:
    """Results of the jobs of one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def metrics(
        self,
        job_id: Identity,
        *,
        names: Sequence[str] = (),
        replicates: Sequence[int] = (),
        max_points: int | None = None,
    ) -> Curves:
        """Return the learning curves, thinned to at most `max_points` points each."""
        query = {"names": [*names], "replicates": [*replicates], "max_points": max_points}
        request = Request("GET", path_of("jobs", job_id, "metrics"), query=query)
        return Curves(self._connection.ask(request, results.CurvesView).data)

    def replicates(self, job_id: Identity) -> tuple[ReplicateResult, ...]:
        """Return the results of all replicates."""
        request = Request("GET", path_of("jobs", job_id, "replicates"))
        return self._connection.ask(request, results.Replicates).data

    def attempts(self, job_id: Identity) -> tuple[AttemptView, ...]:
        """Return all attempts, with their worker, times and outcome."""
        request = Request("GET", path_of("jobs", job_id, "attempts"))
        return self._connection.ask(request, results.Attempts).data

    def evaluations(
        self, job_id: Identity, *, attached: bool | None = None
    ) -> tuple[EvaluationView, ...]:
        """Return the scores of all selected replicates on all evaluated tasks.

        `attached=True` selects the scores of adapted models, and `attached=False` those of the base
        model alone. The default is both.
        """
        query = {"attached": attached}
        request = Request("GET", path_of("jobs", job_id, "evaluations"), query=query)
        return self._connection.ask(request, results.Evaluations).data

    def retention(self, job_id: Identity) -> tuple[TaskRetention, ...]:
        """Return the retention of the tasks other than the trained one."""
        return self._evaluations(job_id).retention

    def drift(self, job_id: Identity) -> tuple[TextDrift, ...]:
        """Return the drift from the base model on neutral texts."""
        return self._evaluations(job_id).drift

    def group_scores(self, job_id: Identity) -> tuple[GroupScore, ...]:
        """Return the scores of groups of standard tasks."""
        return self._evaluations(job_id).groups

    def _evaluations(self, job_id: Identity) -> results.Evaluations:
        request = Request("GET", path_of("jobs", job_id, "evaluations"))
        return self._connection.ask(request, results.Evaluations)

    def theory(self, job_id: Identity) -> tuple[Check, ...]:
        """Return the theory checks of a job, in the order of measurement."""
        request = Request("GET", path_of("jobs", job_id, "theory"))
        return self._connection.ask(request, results.TheoryChecks).data

    def outcomes(self, job_id: Identity, evaluation_id: int | str) -> OutcomeList:
        """Return the outcome of every item of an evaluation; raises `NotFound`."""
        path = path_of("jobs", job_id, "evaluations", evaluation_id, "outcomes")
        return self._connection.ask(Request("GET", path), OutcomeList)

    def answers(
        self,
        job_id: Identity,
        *,
        task: str | None = None,
        task_place: int | None = None,
        seed: int | None = None,
        outcome: Literal["right", "wrong"] | None = None,
        differs: bool = False,
        other: Identity | None = None,
        page_size: int = 100,
    ) -> Iterator[ItemAnswers]:
        """Iterate over the first test items, with expected and given answers.

        There is one entry per task, item and seed. `outcome` is that of the attached answer, and
        `differs=True` selects items whose attached and detached answers differ. `other` is another
        job: only items that it answers otherwise for the same seed. Of tasks with the same name,
        `task_place` selects one by its place among the scored tasks.
        """
        query = {
            "task": task,
            "task_place": task_place,
            "seed": seed,
            "outcome": outcome,
            "differs": differs,
            "with": None if other is None else str(other),
            "page_size": page_size,
        }
        return entries(self._connection, path_of("jobs", job_id, "answers"), ItemAnswers, query)

    def picture(self, job_id: Identity, item: int, *, task_place: int = 0) -> bytes:
        """Fetch the PNG of a test item of a task of images.

        `item` and `task_place` are those of `answers`. Raises `NotFound` with the reason if there
        is no picture, for instance because its dataset has been deleted.
        """
        path = path_of("jobs", job_id, "answers", task_place, item, "picture")
        return download.content(self._connection, path, None)

    def attention(
        self,
        job_id: Identity,
        *,
        layer: int | None = None,
        head: int | None = None,
        source: str | None = None,
        replicate: int | None = None,
    ) -> AttentionMaps:
        """Return the recorded attention maps.

        `layer` and `head` filter their summaries. Arrays are fetched on demand by
        `attention(job, source="adapted", replicate=0).numpy()`.
        """
        query = {"layer": layer, "head": head, "source": source, "replicate": replicate}
        request = Request("GET", path_of("jobs", job_id, "attention"), query=query)
        maps = self._connection.ask(request, Maps).data
        return AttentionMaps(
            AttentionMap.of(view, lambda recorded: self.attention_array(job_id, recorded))
            for view in maps
        )

    def attention_array(self, job_id: Identity, attention: MapView) -> "NDArray[np.float16]":
        """Fetch the patterns [sample, layer, head, query, key].

        Raises `DigestMismatch`.
        """
        import numpy as np  # loaded for arrays only

        path = path_of("jobs", job_id, "attention", attention.id, "content")
        body = download.content(self._connection, path, attention.sha256)
        try:
            array = np.load(io.BytesIO(body), allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise UnexpectedAnswer(f"{path} is not a .npy file: {error}") from error
        patterns = np.asarray(array, dtype=np.float16)
        if patterns.shape != attention.shape:
            raise UnexpectedAnswer(
                f"{path} has shape {patterns.shape}, but {attention.shape} was announced."
            )
        return patterns

    def checkpoints(self, job_id: Identity) -> tuple[CheckpointView, ...]:
        """Return the job's checkpoints; `Client.checkpoints` downloads them."""
        request = Request("GET", path_of("jobs", job_id, "checkpoints"))
        return self._connection.ask(request, results.CheckpointList).data
