"""Greedy completions by the engine's forward pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.models.model import Model
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.plugins.family import Family

ONE_ROW = slice(-1, None)


@dataclass(frozen=True)
class GeneratingBase:
    """A base model: a family's configuration with weights [G, ...]."""

    family: Family
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: Model) -> Self:
        """Return the base of an engine model; in pretraining, the trained weights."""
        own = model.base if model.plan.method is not None else {**model.base, **model.trained}
        return cls(model.plan.family, own)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights, in which the model computes."""
        return self.weights["embed.weight"].dtype

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.weights["embed.weight"].device

    def to(self, dtype: torch.dtype) -> Self:
        """Return the model with its weights rounded to a dtype."""
        rounded = {name: tensor.to(dtype) for name, tensor in self.weights.items()}
        return type(self)(self.family, rounded)

    def logits(self, tokens: Tensor, attached: Attachments, rows: slice) -> Tensor:
        """Return logits [R, B, rows, V] for tokens [R, B, T]."""
        forward = ENGINE_FAMILIES.get(self.family.name)
        return forward(self.family, self.weights, tokens, attached, rows)


@torch.no_grad()
def completions(
    base: GeneratingBase, tokens: Tensor, count: int, attached: Attachments = NOTHING_ATTACHED
) -> Tensor:
    """Complete tokens [A, B, T] greedily; gives [R, B, count].

    Of equally likely tokens the first is chosen.
    """
    asked = tokens.shape[-1]
    for _ in range(count):
        following = base.logits(tokens, attached, ONE_ROW).argmax(-1)
        tokens = torch.cat([grouped.lifted(tokens, len(following)), following], -1)
    return tokens[..., asked:]


def distinct(sequences: Tensor) -> int:
    """Return the number of distinct sequences among [N, T]."""
    return len(torch.unique(sequences, dim=0)) if len(sequences) else 0
