"""Standings of replicates on the validation split, for choosing trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.measuring.evaluate import Judged, judged
from adaptlab.engine.measuring.measuring import statistics_of
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.tensors import Float
from adaptlab.engine.training.passes import ReplicatePass
from adaptlab.plugins.metric import Metric


@dataclass(frozen=True)
class Standings:
    """Validation scores by replicate.

    `metric` has the task's other metric, which is `kind`; both are None if trials are chosen by
    accuracy.
    """

    accuracy: Mapping[int, float]
    metric: Mapping[int, float] | None = None
    kind: Metric | None = None

    @classmethod
    def of(cls, plan: Plan, replicates: Sequence[int], measured: Float[Tensor, "R 2"]) -> Self:
        """Return the standings of replicates by `measured_standings`."""
        accuracy, metric = (dict(zip(replicates, row, strict=True)) for row in measured.T.tolist())
        kind = plan.task.own_metric()
        return cls(accuracy, None if kind is None else metric, kind)

    def cost(self, replicates: Sequence[int]) -> tuple[int, float]:
        """Return a sort key of a trial by the mean of its replicates, best first.

        One that was not measured has the worst value, so a diverged one is worst: a share of 0 or
        the largest perplexity. Where lower is better, those of the worst value are counted apart:
        added up, they would round all others away.
        """
        scores, kind = self.accuracy if self.metric is None else self.metric, self.kind
        if kind is None or not kind.lower_is_better:
            worst = 0.0 if kind is None else kind.worst
            return 0, -sum(scores.get(one, worst) for one in replicates) / len(replicates)
        values = [scores.get(one, kind.worst) for one in replicates]
        finite = [value for value in values if value < kind.worst]
        return len(values) - len(finite), sum(finite) / len(replicates)


def validation(plan: Plan, one: ReplicatePass, samples: int) -> Float[Tensor, "R 3"]:
    """Return loss, accuracy and the stopping metric of a pass's replicates.

    The last column is 0 if early stopping follows the loss.
    """
    metric = None if plan.stopping_metric is None else plan.task.own_metric()
    found = judged(
        one.model, plan.task, "validation", samples, one.cut.replicates,
        with_answers=_needs_answers(metric),
    )  # fmt: skip
    assert found.loss is not None
    accuracy = found.right.double().mean(1)
    other = None if plan.stopping_metric is None else _other(plan, found)
    column = torch.zeros_like(accuracy) if other is None else other
    return torch.stack((found.loss, accuracy, column), 1)


def measured_standings(plan: Plan, one: ReplicatePass) -> Float[Tensor, "R 2"]:
    """Return accuracy and the task's other metric of a pass's replicates.

    Without another metric, the second column equals the first.
    """
    samples, replicates = plan.trained.validation_samples, one.cut.replicates
    metric = plan.task.own_metric()
    with_loss = metric is not None and metric.needs_loss
    found = judged(
        one.model, plan.task, "validation", samples, replicates, with_loss=with_loss,
        with_answers=_needs_answers(metric),
    )  # fmt: skip
    accuracy = found.right.double().mean(1)
    other = _other(plan, found)
    return torch.stack((accuracy, accuracy if other is None else other), 1)


def _needs_answers(metric: Metric | None) -> bool:
    return metric is not None and metric.needs == "answers"


def _other(plan: Plan, found: Judged) -> Float[Tensor, "R"] | None:
    if (metric := plan.task.own_metric()) is None:
        return None
    measured = statistics_of(plan.task, "validation", metric, found)
    values = [metric.value(row) for row in measured]
    return torch.tensor(values, dtype=torch.float64, device=found.right.device)
