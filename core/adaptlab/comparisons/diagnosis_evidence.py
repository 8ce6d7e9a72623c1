"""The evidence of a diagnosis: trials, methods and the base model."""

from collections.abc import Mapping, Sequence
from typing import Literal

from adaptlab.measurements.results import ReplicateResult
from adaptlab.values import Value

Schedule = Literal["cosine", "constant"]


class TrialEvidence(Value):
    """The result of one trial of one seed.

    Losses are means of the training loss in nats. `half_loss` is the loss half way through the
    training, None if it was not kept. A diverged trial has no final loss. `accuracy` is on held-out
    items: of the validation split or, if the trial was not scored there, of the test split; None if
    it was scored on neither.
    """

    seed: int
    trial: int
    learning_rate: float
    final_loss: float | None
    half_loss: float | None = None
    accuracy: float | None = None


class MethodEvidence(Value):
    """The measurements of one method on one task, over all seeds and trials.

    `test_accuracy` is the mean over the chosen replicates. `configuration` is the resolved method,
    for proposals of further runs. `pins_attention` is True if the method cannot change the first
    layer's relative attention, `grows` if it has larger sizes. `restriction` is a clause on what
    else it cannot do. `context_tokens` are the positions that it takes if the study's budgets limit
    them, and `rival` is then a method of its size that can change attention.
    """

    method: str
    trials: tuple[TrialEvidence, ...]
    test_accuracy: float
    parameters: int = 0
    steps: int = 0
    schedule: Schedule = "cosine"
    pins_attention: bool = False
    grows: bool = True
    restriction: str = ""
    configuration: Mapping[str, object] = {}
    context_tokens: int | None = None
    rival: Mapping[str, object] = {}


class BaseEvidence(Value):
    """The base model's accuracy on its own tasks together, and chance."""

    accuracy: float
    chance: float


class Evidence(Value):
    """The evidence on `subject`, all from one task and one base model.

    `reference` can change everything (usually full fine-tuning) and shows that the task can be
    learned; `pinned` can change everything except the first layer's attention. `sizes` are the
    subject at other sizes, `durations` the same configuration with other numbers of steps, and
    `others` methods that compute other functions. `equivalent` are labels of rows that compute the
    same function, whose trials are among the subject's. `base` is None if the base was not scored
    on all of its own tasks. `base_has_tasks` is False if it has none: the base was imported, or the
    subject does not start from it. `chance_loss` (nats) and `chance_accuracy` are those of uniform
    guessing. `counted_length` is the mean number of answer tokens over which a loss is averaged
    (`Task.counted_length`).
    """

    subject: MethodEvidence
    reference: MethodEvidence | None = None
    pinned: MethodEvidence | None = None
    sizes: tuple[MethodEvidence, ...] = ()
    durations: tuple[MethodEvidence, ...] = ()
    others: tuple[MethodEvidence, ...] = ()
    equivalent: tuple[str, ...] = ()
    base: BaseEvidence | None = None
    base_has_tasks: bool = True
    chance_loss: float
    chance_accuracy: float
    counted_length: float


def trial_evidence(
    replicates: Sequence[ReplicateResult],
    half_losses: Mapping[int, float] | None = None,
    test_accuracies: Mapping[int, float] | None = None,
) -> tuple[TrialEvidence, ...]:
    """Return the evidence from the replicates of a job.

    The mappings are by replicate number. A trial that was eliminated at a rung was not trained to
    the end, so it is left out.
    """
    halves, tests = half_losses or {}, test_accuracies or {}
    return tuple(
        TrialEvidence(
            seed=one.seed,
            trial=one.trial,
            learning_rate=one.learning_rate,
            final_loss=None if one.status == "diverged" else one.final_loss,
            half_loss=halves.get(one.replicate),
            accuracy=tests.get(one.replicate)
            if one.validation_accuracy is None
            else one.validation_accuracy,
        )
        for one in replicates
        if one.status != "eliminated"
    )
