"""The evidence of a diagnosis: trials, methods and the base model."""

from collections.abc import Mapping, Sequence
from typing import Literal

from adaptlab.figures import percent
from adaptlab.plugins.metric import Metric, metric_named
from adaptlab.runs.events import ReplicateResult
from adaptlab.values import Value

Schedule = Literal["cosine", "constant"]


class TrialEvidence(Value):
    """The result of one trial of one seed.

    Losses are means of the training loss in nats. `half_loss` is the loss half way through the
    training, None if it was not kept. A diverged trial has no final loss. `score` is on held-out
    items: of the validation split or, if the trial was not scored there, of the test split; None if
    it was scored on neither.
    """

    seed: int
    trial: int
    learning_rate: float
    final_loss: float | None
    half_loss: float | None = None
    score: float | None = None


class MethodEvidence(Value):
    """The measurements of one method on one task, over all seeds and trials.

    `score` is the mean over the chosen replicates. `configuration` is the resolved method,
    for controls of it; `larger` is the method at about twice the size, empty if there is none, and
    `rival` another method of its size that can change attention. `pins_attention` is True if the
    method cannot change the first layer's relative attention, `grows` if it has larger sizes.
    `restriction` is a clause on what else it cannot do. `usual_rates` are the limits of the
    learning rates that the method is usually trained with, None if unknown. `is_control` is True
    for a training that belongs to a diagnosis. `seconds` is the time per step and replicate of its
    training, None if unknown.
    """

    method: str
    trials: tuple[TrialEvidence, ...]
    score: float
    parameters: int = 0
    steps: int = 0
    schedule: Schedule = "cosine"
    pins_attention: bool = False
    grows: bool = True
    restriction: str = ""
    configuration: Mapping[str, object] = {}
    larger: Mapping[str, object] = {}
    rival: Mapping[str, object] = {}
    usual_rates: tuple[float, float] | None = None
    is_control: bool = False
    seconds: float | None = None


class BaseEvidence(Value):
    """The base model's accuracy on its own tasks together, and chance."""

    accuracy: float
    chance: float


class DiagnosisEvidence(Value):
    """The evidence on `subject`, all from one task and one base model.

    `reference` can change everything (usually full fine-tuning) and shows that the task can be
    learned; `pinned` can change everything except the first layer's attention. `sizes` are the
    subject at other sizes, `durations` the same configuration with other steps or schedules, and
    `others` methods that compute other functions. `equivalent` are labels of rows that compute the
    same function, whose trials are among the subject's. `base` is None if the base was not scored
    on all of its own tasks. `base_has_tasks` is False if it has none: the base was imported, or the
    subject does not start from it. `chance_loss` (nats) is that of uniform guessing, and
    `chance_score` what needs no skill: guessing, the most common answer among the scored items and
    the best constant answer. `base_alone` is the score of the base model alone, None if it was not
    measured. Scores are the shares of right items or, in a table by a `metric`, its values on a
    scale from 0, the worst, to 1, the best (`Metric.as_score`). `counted_length` is the mean number
    of answer tokens over which a loss is averaged (`Task.counted_length`). `present` are the labels
    of all trainings that were asked for, of which `running` have not ended.
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
    base_alone: float | None = None
    chance_loss: float
    chance_score: float
    metric: str | None = None
    counted_length: float
    present: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()

    @property
    def floor(self) -> float:
        """The score that a method has to beat before anything is said of it."""
        return max(self.chance_score, self.base_alone or 0.0)

    def figure(self, score: float) -> str:
        """Return a score as text: in per cent, or as a value of the metric."""
        metric = metric_named(self.metric)
        return percent(score) if metric is None else metric.figure(metric.of_score(score))

    @property
    def same(self) -> tuple[MethodEvidence, ...]:
        """The trainings of the subject's configuration, its own first."""
        return (self.subject, *self.durations)


def trial_evidence(
    replicates: Sequence[ReplicateResult],
    half_losses: Mapping[int, float] | None = None,
    test_scores: Mapping[int, float] | None = None,
    metric: Metric | None = None,
) -> tuple[TrialEvidence, ...]:
    """Return the evidence from the replicates of a job.

    The mappings are by replicate number. A trial that was eliminated at a rung was not trained to
    the end, so it is left out. Scores are the shares of right items, or those of a `metric`.
    """
    halves, tests = half_losses or {}, test_scores or {}
    return tuple(
        TrialEvidence(
            seed=one.seed,
            trial=one.trial,
            learning_rate=one.learning_rate,
            final_loss=None if one.status == "diverged" else one.final_loss,
            half_loss=halves.get(one.replicate),
            score=tests.get(one.replicate) if held_out is None else held_out,
        )
        for one in replicates
        for held_out in (_held_out(one, metric),)
        if one.status != "eliminated"
    )


def _held_out(one: ReplicateResult, metric: Metric | None) -> float | None:
    """Return the score of a trial on the validation split."""
    if metric is None:
        return one.validation_accuracy
    return None if one.validation_metric is None else metric.as_score(one.validation_metric)
