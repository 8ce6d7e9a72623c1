"""Early stopping of each replicate by its cost on the validation split."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.tensors import Float, Int
from adaptlab.specs.spec import EarlyStopping


@dataclass
class Patience:
    """Each replicate's lowest cost, its weights, and validations since.

    The cost is the loss, or minus the metric if stopping follows one. It counts if it improves on
    the lowest by `min_delta`. The rows of `best` are the initial weights until one does.
    """

    rule: EarlyStopping
    best: Float[Tensor, "L N"]
    lowest: list[float]
    waited: list[int]

    @classmethod
    def begin(cls, rule: EarlyStopping, flat: Float[Tensor, "L N"]) -> Self:
        """Return the state before the first validation of the weights."""
        return cls(rule, flat.clone(), [math.inf] * len(flat), [0] * len(flat))

    def take_note(self, costs: Sequence[float], flat: Float[Tensor, "L N"]) -> list[int]:
        """Record a validation of all; return the rows that have to stop."""
        better: list[int] = []
        for row, cost in enumerate(costs):
            if cost < self.lowest[row] - self.rule.min_delta:
                self.lowest[row], self.waited[row] = cost, 0
                better.append(row)
            else:
                self.waited[row] += 1
        rows = torch.tensor(better, dtype=torch.int64, device=flat.device)
        self.best[rows] = flat[rows]
        return [row for row, waited in enumerate(self.waited) if waited >= self.rule.patience]

    def of(self, rows: Int[Tensor, "W"]) -> "Patience":
        """Return the state of some of the replicates."""
        places: list[int] = rows.tolist()
        return Patience(
            self.rule,
            self.best[rows],
            [self.lowest[place] for place in places],
            [self.waited[place] for place in places],
        )

    def kept(self, flat: Float[Tensor, "L N"]) -> Float[Tensor, "L N"]:
        """Return the best weights, or `flat` if no cost was ever finite."""
        counted = [math.isfinite(cost) for cost in self.lowest]
        has_best = torch.tensor(counted, dtype=torch.bool, device=flat.device).unsqueeze(1)
        return torch.where(has_best, self.best, flat)
