"""What a job has measured: curves, scores, attention, theory checks, attempts, checkpoints."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adaptlab_client import download
from adaptlab_client.answers import (
    Attempt,
    Checkpoint,
    Curve,
    Evaluation,
    Outcomes,
    Replicate,
    Results,
    TheoryCheck,
)
from adaptlab_client.attention_answers import AttentionMap, AttentionMaps
from adaptlab_client.connection import Connection, Request, path_of
from adaptlab_client.curves import Curves
from adaptlab_client.errors import UnexpectedAnswer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class JobResults:
    """What the jobs of one server have measured."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def metrics(
        self,
        job_id: str,
        *,
        names: Sequence[str] = (),
        replicates: Sequence[int] = (),
        max_points: int | None = None,
    ) -> Curves:
        """The learning curves, thinned to at most `max_points` each; as frame and picture too."""
        query = {"names": [*names], "replicates": [*replicates], "max_points": max_points}
        request = Request("GET", path_of("jobs", job_id, "metrics"), query=query)
        return Curves(self._connection.ask(request, Results[Curve]).data)

    def replicates(self, job_id: str) -> tuple[Replicate, ...]:
        """How every seed and trial ended."""
        request = Request("GET", path_of("jobs", job_id, "replicates"))
        return self._connection.ask(request, Results[Replicate]).data

    def attempts(self, job_id: str) -> tuple[Attempt, ...]:
        """Every try at the job: where it ran, when, and how it ended."""
        request = Request("GET", path_of("jobs", job_id, "attempts"))
        return self._connection.ask(request, Results[Attempt]).data

    def evaluations(self, job_id: str, *, attached: bool | None = None) -> tuple[Evaluation, ...]:
        """The scores of every chosen replicate on every evaluated task.

        `attached=True` leaves out the scores of the base model on its own, `attached=False` all
        others; without it both come.
        """
        query = {"attached": attached}
        request = Request("GET", path_of("jobs", job_id, "evaluations"), query=query)
        return self._connection.ask(request, Results[Evaluation]).data

    def theory(self, job_id: str) -> tuple[TheoryCheck, ...]:
        """What the theory checks of a job say, in the order in which they were measured."""
        request = Request("GET", path_of("jobs", job_id, "theory"))
        return self._connection.ask(request, Results[TheoryCheck]).data

    def outcomes(self, job_id: str, evaluation_id: int | str) -> Outcomes:
        """Which items of an evaluation were right, in item order; raises `NotFound`."""
        path = path_of("jobs", job_id, "evaluations", evaluation_id, "outcomes")
        return self._connection.ask(Request("GET", path), Outcomes)

    def attention(
        self,
        job_id: str,
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
        found = self._connection.ask(request, Results[AttentionMap]).data
        return AttentionMaps(
            one.fetched_by(lambda recorded: self.attention_array(job_id, recorded)) for one in found
        )

    def attention_array(self, job_id: str, attention: AttentionMap) -> "NDArray[np.float16]":
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

    def checkpoints(self, job_id: str) -> tuple[Checkpoint, ...]:
        """The checkpoints of the job; `Client.checkpoints` downloads them."""
        request = Request("GET", path_of("jobs", job_id, "checkpoints"))
        return self._connection.ask(request, Results[Checkpoint]).data
