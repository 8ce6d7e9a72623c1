"""Standings of replicates on the validation split, for choosing trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.answer_f1 import token_f1s
from adaptlab.engine.evaluate import Judged, confusion_of, judged
from adaptlab.engine.passes import Pass
from adaptlab.engine.plan import Plan
from adaptlab.engine.tensors import Float
from adaptlab.statistics.confusions import macro_f1
from adaptlab.text.metrics import (
    LARGEST_PERPLEXITY,
    LOWER_IS_BETTER,
    OtherMetric,
    limited_perplexity,
)


@dataclass(frozen=True)
class Standings:
    """Validation scores by replicate.

    `metric` has the task's other metric, which is `name`; both are None if trials are chosen by
    accuracy.
    """

    accuracy: Mapping[int, float]
    metric: Mapping[int, float] | None = None
    name: OtherMetric | None = None

    @classmethod
    def of(cls, plan: Plan, replicates: Sequence[int], measured: Float[Tensor, "R 2"]) -> Self:
        """Return the standings of replicates by `measured_standings`."""
        accuracy, metric = (dict(zip(replicates, row, strict=True)) for row in measured.T.tolist())
        name = plan.task.other_metric()
        return cls(accuracy, None if name is None else metric, name)

    def cost(self, replicates: Sequence[int]) -> tuple[int, float]:
        """Return a sort key of a trial by the mean of its replicates, best first.

        One that was not measured has the worst value, so a diverged one is worst: a share of 0 or
        the largest perplexity. Those of the largest perplexity are counted apart: added up, they
        would round all others away.
        """
        scores = self.accuracy if self.metric is None else self.metric
        if self.name not in LOWER_IS_BETTER:
            return 0, -sum(scores.get(one, 0.0) for one in replicates) / len(replicates)
        values = [scores.get(one, LARGEST_PERPLEXITY) for one in replicates]
        finite = [value for value in values if value < LARGEST_PERPLEXITY]
        return len(values) - len(finite), sum(finite) / len(replicates)


def validation(plan: Plan, one: Pass, samples: int) -> Float[Tensor, "R 3"]:
    """Return loss, accuracy and the stopping metric of a pass's replicates.

    The last column is 0 if early stopping follows the loss.
    """
    found = judged(one.model, plan.task, "validation", samples, one.cut.replicates)
    assert found.loss is not None
    accuracy = found.right.double().mean(1)
    other = None if plan.stopping_metric is None else _other(plan, one, found)
    metric = torch.zeros_like(accuracy) if other is None else other
    return torch.stack((found.loss, accuracy, metric), 1)


def measured_standings(plan: Plan, one: Pass) -> Float[Tensor, "R 2"]:
    """Return accuracy and the task's other metric of a pass's replicates.

    Without another metric, the second column equals the first.
    """
    samples, replicates = plan.trained.validation_samples, one.cut.replicates
    with_loss = plan.task.other_metric() == "perplexity"
    found = judged(one.model, plan.task, "validation", samples, replicates, with_loss=with_loss)
    accuracy = found.right.double().mean(1)
    other = _other(plan, one, found)
    return torch.stack((accuracy, accuracy if other is None else other), 1)


def _other(plan: Plan, one: Pass, found: Judged) -> Float[Tensor, "R"] | None:
    match plan.task.other_metric():
        case None:
            return None
        case "token_f1":
            values = token_f1s(one.model, plan.task, "validation", found.right)
        case "macro_f1":
            confusions = (confusion_of(plan.task, found, row) for row in range(len(found.right)))
            values = [macro_f1(labels.counts) for labels in confusions if labels is not None]
        case "perplexity":
            assert found.loss is not None
            values = [limited_perplexity(loss) for loss in found.loss.tolist()]
    return torch.tensor(values, dtype=torch.float64, device=found.right.device)
