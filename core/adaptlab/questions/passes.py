"""Passes, methods and tables of a study that answers a question."""

from typing import Annotated, Literal

from pydantic import Field

from adaptlab.statistics.scores import Scores
from adaptlab.studies.study_plan import Role
from adaptlab.values import Value

PassKind = Literal["sweep", "wider", "evidence"]
PassState = Literal["open", "done", "failed", "dropped"]


class TriedRate(Value):
    """One learning rate of a sweep, with means on the validation split.

    `accuracy` is the score by which trials are chosen: the task's `metric` if it has another. If
    that is better where it is lower, as perplexity is, it is `lowest`, and `accuracy` is exact
    match. A diverged replicate contributes the worst value and no loss. `falls`
    is true if the training loss still fell in the second half of the training.
    """

    learning_rate: float
    accuracy: float
    loss: float | None
    seeds: int
    falls: bool = False
    lowest: float | None = None


class TrainingPass(Value):
    """One training of a method: a sweep, or seeds at the chosen rate.

    `wider` sweeps rates around an edge. Only `evidence` is scored on test items that count.
    `replicate_steps` is the sum of the steps of all replicates. `tried` is known of a finished
    sweep. It took `times_longer` times the steps of the study.
    """

    number: int
    kind: PassKind
    method: str
    seeds: tuple[int, ...]
    rates: tuple[float, ...]
    replicate_steps: int
    state: PassState
    tried: tuple[TriedRate, ...] = ()
    times_longer: int = 1


class MethodState(Value):
    """One method of a table with its passes.

    `rates` is the grid of learning rates that a fixed design would sweep, ascending; empty if the
    method trains nothing. `scores` are those of the evidence at the chosen rate.
    """

    label: str
    role: Role
    rates: tuple[float, ...]
    steps: Annotated[int, Field(ge=0)]
    passes: tuple[TrainingPass, ...]
    scores: Scores | None

    @property
    def has_failed(self) -> bool:
        """True if its latest pass failed."""
        kept = [one for one in self.passes if one.state != "dropped"]
        return bool(kept) and kept[-1].state == "failed"

    def under_way(self) -> tuple[TrainingPass, ...]:
        """Return the passes that have not ended."""
        return tuple(one for one in self.passes if one.state == "open")


class ComparisonPlace(Value):
    """Where methods are compared: one task at one budget on one base model."""

    base_model: str
    task: str
    budget: int


class TableState(Value):
    """The methods of one place. `chance` is the accuracy of guessing."""

    place: ComparisonPlace
    methods: tuple[MethodState, ...]
    chance: float = 0.0
