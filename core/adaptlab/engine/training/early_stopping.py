"""Early stopping of each replicate by its scores on the validation split."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.tensors import Float, Int
from adaptlab.specs.spec import EarlyStopping


@dataclass
class ValidationPatience:
    """Each replicate's best validation, its weights, and validations since.

    A validation is better than the best one if its metric is higher by more than `min_delta`, or
    not lower with a loss that is lower by more. Without a metric to follow, all have the same.
    `highest` and `lowest` are metric and loss of the best. The rows of `best` are the initial
    weights until there is one.
    """

    rule: EarlyStopping
    best: Float[Tensor, "L N"]
    highest: list[float]
    lowest: list[float]
    waited: list[int]

    @classmethod
    def begin(cls, rule: EarlyStopping, flat: Float[Tensor, "L N"]) -> Self:
        """Return the state before the first validation of the weights."""
        rows = len(flat)
        return cls(rule, flat.clone(), [-math.inf] * rows, [math.inf] * rows, [0] * rows)

    def take_note(
        self, losses: Sequence[float], metrics: Sequence[float], flat: Float[Tensor, "L N"]
    ) -> list[int]:
        """Record a validation of all; return the rows that have to stop."""
        better: list[int] = []
        for row, (loss, metric) in enumerate(zip(losses, metrics, strict=True)):
            if self._is_better(row, loss, metric):
                self.lowest[row], self.highest[row], self.waited[row] = loss, metric, 0
                better.append(row)
            else:
                self.waited[row] += 1
        rows = torch.tensor(better, dtype=torch.int64, device=flat.device)
        self.best[rows] = flat[rows]
        return [row for row, waited in enumerate(self.waited) if waited >= self.rule.patience]

    def _is_better(self, row: int, loss: float, metric: float) -> bool:
        if not math.isfinite(loss):
            return False  # such a model gives answers, which may be right by chance
        highest, delta = self.highest[row], self.rule.min_delta
        is_lower = loss < self.lowest[row] - delta
        return metric > highest + delta or (metric >= highest and is_lower)

    def of(self, rows: Int[Tensor, "W"]) -> "ValidationPatience":
        """Return the state of some of the replicates."""
        places: list[int] = rows.tolist()
        return ValidationPatience(
            self.rule,
            self.best[rows],
            [self.highest[place] for place in places],
            [self.lowest[place] for place in places],
            [self.waited[place] for place in places],
        )

    def kept(self, flat: Float[Tensor, "L N"]) -> Float[Tensor, "L N"]:
        """Return the best weights, or `flat` if no loss was ever finite."""
        counted = [math.isfinite(loss) for loss in self.lowest]
        has_best = torch.tensor(counted, dtype=torch.bool, device=flat.device).unsqueeze(1)
        return torch.where(has_best, self.best, flat)
