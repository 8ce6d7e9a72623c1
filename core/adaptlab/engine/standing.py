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


@dataclass(frozen=True)
class Standings:
    """Validation scores by replicate.

    `metric` is the other metric of the task, None if trials are chosen by accuracy.
    """

    accuracy: Mapping[int, float]
    metric: Mapping[int, float] | None

    @classmethod
    def of(cls, plan: Plan, replicates: Sequence[int], measured: Float[Tensor, "R 2"]) -> Self:
        """Return the standings of replicates by `measured_standings`."""
        accuracy, metric = (dict(zip(replicates, row, strict=True)) for row in measured.T.tolist())
        return cls(accuracy, None if plan.task.other_metric() is None else metric)

    def score(self, replicate: int) -> float:
        """Return the score by which trials are chosen, higher is better.

        One that was not measured has the worst score, so a diverged one is worst.
        """
        scores = self.accuracy if self.metric is None else self.metric
        return scores.get(replicate, 0.0)


def measured_standings(plan: Plan, one: Pass) -> Float[Tensor, "R 2"]:
    """Return accuracy and the task's other metric of a pass's replicates.

    Without another metric, the second column equals the first.
    """
    samples, replicates = plan.trained.validation_samples, one.cut.replicates
    found = judged(one.model, plan.task, "validation", samples, replicates, with_loss=False)
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
    return torch.tensor(values, dtype=torch.float64, device=found.right.device)
