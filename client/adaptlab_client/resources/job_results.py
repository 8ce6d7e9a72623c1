"""What a job has measured: curves, scores, attention, theory checks, attempts, checkpoints."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adaptlab.measurements.results import ReplicateResult
from adaptlab.measurements.theory_report import Check
from adaptlab_answers import results
from adaptlab_answers.attention import Maps, MapView
from adaptlab_answers.results import AttemptView, CheckpointView, EvaluationView, OutcomeList
from adaptlab_client.display.attention_maps import AttentionMap, AttentionMaps
from adaptlab_client.display.curves import Curves
from adaptlab_client.errors import UnexpectedAnswer
from adaptlab_client.transport import download
from adaptlab_client.transport.connection import Connection, Identity, Request, path_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class JobResults:
    """What the jobs of one server have measured."""

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
        """The learning curves, thinned to at most `max_points` each; as frame and picture too."""
        query = {"names": [*names], "replicates": [*replicates], "max_points": max_points}
        request = Request("GET", path_of("jobs", job_id, "metrics"), query=query)
        return Curves(self._connection.ask(request, results.Curves).data)

    def replicates(self, job_id: Identity) -> tuple[ReplicateResult, ...]:
        """How every seed and trial ended."""
        request = Request("GET", path_of("jobs", job_id, "replicates"))
        return self._connection.ask(request, results.Replicates).data

    def attempts(self, job_id: Identity) -> tuple[AttemptView, ...]:
        """Every try at the job: where it ran, when, and how it ended."""
        request = Request("GET", path_of("jobs", job_id, "attempts"))
        return self._connection.ask(request, results.Attempts).data

    def evaluations(
        self, job_id: Identity, *, attached: bool | None = None
    ) -> tuple[EvaluationView, ...]:
        """The scores of every chosen replicate on every evaluated task.

        `attached=True` leaves out the scores of the base model on its own, `attached=False` all
        others; without it both come.
        """
        query = {"attached": attached}
        request = Request("GET", path_of("jobs", job_id, "evaluations"), query=query)
        return self._connection.ask(request, results.Evaluations).data

    def theory(self, job_id: Identity) -> tuple[Check, ...]:
        """What the theory checks of a job say, in the order in which they were measured."""
        request = Request("GET", path_of("jobs", job_id, "theory"))
        return self._connection.ask(request, results.TheoryChecks).data

    def outcomes(self, job_id: Identity, evaluation_id: int | str) -> OutcomeList:
        """Which items of an evaluation were right, in item order; raises `NotFound`."""
        path = path_of("jobs", job_id, "evaluations", evaluation_id, "outcomes")
        return self._connection.ask(Request("GET", path), OutcomeList)

    def attention(
        self,
        job_id: Identity,
        *,
        layer: int | None = None,
        head: int | None = None,
        source: str | None = None,
        replicate: int | None = None,
    ) -> AttentionMaps:
        """The recorded attention maps; `layer` and `head` narrow their summaries down.

        Arrays are fetched when asked for: `attention(job, source="adapted", replicate=0).numpy()`.
        """
        query = {"layer": layer, "head": head, "source": source, "replicate": replicate}
        request = Request("GET", path_of("jobs", job_id, "attention"), query=query)
        found = self._connection.ask(request, Maps).data
        return AttentionMaps(
            AttentionMap.of(one, lambda recorded: self.attention_array(job_id, recorded))
            for one in found
        )

    def attention_array(self, job_id: Identity, attention: MapView) -> "NDArray[np.float16]":
        """The patterns [sample, layer, head, query, key]; raises `DigestMismatch`."""
        import numpy as np  # only for those who look at arrays

        path = path_of("jobs", job_id, "attention", attention.id, "content")
        body = download.content(self._connection, path, attention.sha256)
        try:
            array = np.load(io.BytesIO(body), allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise UnexpectedAnswer(f"{path} is not a .npy file: {error}") from error
        found = np.asarray(array, dtype=np.float16)
        if found.shape != attention.shape:
            raise UnexpectedAnswer(f"{path} is not an array of shape {attention.shape}.")
        return found

    def checkpoints(self, job_id: Identity) -> tuple[CheckpointView, ...]:
        """The checkpoints of the job; `Client.checkpoints` downloads them."""
        request = Request("GET", path_of("jobs", job_id, "checkpoints"))
        return self._connection.ask(request, results.Checkpoints).data
