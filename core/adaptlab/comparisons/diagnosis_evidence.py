"""What a diagnosis may use: trials, methods and the base model, as they were measured."""

from collections.abc import Mapping, Sequence
from typing import Literal

from adaptlab.measurements.results import ReplicateResult
from adaptlab.values import Value

Schedule = Literal["cosine", "constant"]


class TrialEvidence(Value):
    """How one seed and trial ended; losses are means of the training loss in nats.

    `half_loss` is the loss half way through the training, None if it was not kept; a diverged
    trial has no final loss. `accuracy` is on held-out items: of the validation split or, for a
    trial that was not scored there, of the test; None if neither was done.
    """

    seed: int
    trial: int
    learning_rate: float
    final_loss: float | None
    half_loss: float | None = None
    accuracy: float | None = None


class MethodEvidence(Value):
    """What was measured of one method on one task, over all seeds and trials.

    `test_accuracy` is the mean over the chosen replicates. `configuration` is the resolved method,
    from which the text proposes further runs. `pins_attention` says that the method cannot change
    the first layer's relative attention, `grows` that it exists in larger sizes, and `restriction`
    what else it cannot do.
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


class BaseEvidence(Value):
    """How well the base model does its own tasks, all of them together, and how well by chance."""

    accuracy: float
    chance: float


class Evidence(Value):
    """All that a diagnosis of `subject` may use; everything is of one task and one base model.

    `reference` is a method that may change everything, full fine-tuning as a rule: it shows that
    the task can be learned. `pinned` may change everything except the first layer's attention.
    `sizes` are the subject at other sizes, `durations` the same configuration trained for other
    numbers of steps, `others` further methods, none of which computes the same function.
    `equivalent` are labels whose trials are among the subject's, because they do. `base` is None
    where the base was not scored on all of its own tasks, and `base_has_tasks` False where there
    are none: the base was imported, or the subject does not start from it. `chance_loss`
    (nats) and `chance_accuracy` are those of uniform guessing; `counted_length` is the mean number
    of tokens of an answer that a loss is the mean of (`Task.counted_length`).
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
    """The evidence in the replicates of a job; the mappings are by replicate number.

    A trial that was eliminated at a rung did not have its whole training and shows nothing.
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
