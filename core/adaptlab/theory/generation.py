"""Greedy completions by the engine's forward pass, from weights and what a method attaches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine import grouped
from adaptlab.engine.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.model import Model
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.plugins.family import Family

ONE_ROW = slice(-1, None)


@dataclass(frozen=True)
class Base:
    """A family's configuration with weights [G, ...]: a model before anything is attached."""

    family: Family
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: Model) -> Self:
        """The base of an engine model; in pretraining that is what was trained."""
        own = model.base if model.plan.method is not None else {**model.base, **model.trained}
        return cls(model.plan.family, own)

    @property
    def dtype(self) -> torch.dtype:
        """What the model computes in."""
        return self.weights["embed.weight"].dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.weights["embed.weight"].device

    def to(self, dtype: torch.dtype) -> Self:
        """The same model with its weights rounded."""
        rounded = {name: tensor.to(dtype) for name, tensor in self.weights.items()}
        return type(self)(self.family, rounded)

    def logits(self, tokens: Tensor, attached: Attachments, rows: slice) -> Tensor:
        """Logits [R, B, rows, V] for tokens [R, B, T]."""
        forward = ENGINE_FAMILIES.get(self.family.name)
        return forward(self.family, self.weights, tokens, attached, rows)


@torch.no_grad()
def completions(
    base: Base, tokens: Tensor, count: int, attached: Attachments = NOTHING_ATTACHED
) -> Tensor:
    """The next `count` tokens [R, B, count] after tokens [A, B, T], the likeliest at every step.

    Of equally likely tokens the first is taken.
    """
    asked = tokens.shape[-1]
    for _ in range(count):
        following = base.logits(tokens, attached, ONE_ROW).argmax(-1)
        tokens = torch.cat([grouped.lifted(tokens, len(following)), following], -1)
    return tokens[..., asked:]


def distinct(sequences: Tensor) -> int:
    """How many different sequences there are among [N, T]."""
    return len(torch.unique(sequences, dim=0)) if len(sequences) else 0
