"""Early stopping of every replicate on its own, by its loss on the validation split."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from adaptlab.specs.spec import EarlyStopping


@dataclass
class Patience:
    """For each replicate the lowest loss that counted, the validations since, and its weights.

    `best` is [L, N], laid out like the weights; its rows are the starting weights until a loss
    counted.
    """

    rule: EarlyStopping
    best: Tensor
    lowest: list[float]
    waited: list[int]

    @classmethod
    def begin(cls, rule: EarlyStopping, flat: Tensor) -> Self:
        """Before the first validation of the weights flat [L, N]."""
        return cls(rule, flat.clone(), [math.inf] * len(flat), [0] * len(flat))

    def take_note(self, losses: Sequence[float], flat: Tensor) -> list[int]:
        """Note a validation of every replicate; returns the rows whose patience is at its end."""
        better: list[int] = []
        for row, loss in enumerate(losses):
            if loss < self.lowest[row] - self.rule.min_delta:
                self.lowest[row], self.waited[row] = loss, 0
                better.append(row)
            else:
                self.waited[row] += 1
        rows = torch.tensor(better, dtype=torch.int64, device=flat.device)
        self.best[rows] = flat[rows]
        return [row for row, waited in enumerate(self.waited) if waited >= self.rule.patience]

    def of(self, rows: Tensor) -> "Patience":
        """The same for some of the replicates."""
        places: list[int] = rows.tolist()
        return Patience(
            self.rule,
            self.best[rows],
            [self.lowest[place] for place in places],
            [self.waited[place] for place in places],
        )

    def kept(self, flat: Tensor) -> Tensor:
        """The weights [L, N] to keep: the best, or `flat` where no loss was ever finite."""
        counted = [math.isfinite(loss) for loss in self.lowest]
        has_best = torch.tensor(counted, dtype=torch.bool, device=flat.device).unsqueeze(1)
        return torch.where(has_best, self.best, flat)
