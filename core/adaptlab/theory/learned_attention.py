"""Variation of attention on learned positions (appendix B, E7)."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.theory.observation import FrozenBase, observe
from adaptlab.theory.span import fraction_over_prefix, percentile_gap


@dataclass(frozen=True)
class LearnedAttention:
    """Attention of one replicate and layer over P learned positions.

    It is renormalised to one over them. `gaps` [H, P] are between the 99th and 1st percentile over
    inputs, `fractions` [H, P] the means, and `taken` [H] the mean attention on all of them.
    """

    gaps: Tensor
    fractions: Tensor
    taken: Tensor

    @property
    def gap(self) -> float:
        """The mean gap over heads and positions."""
        return float(self.gaps.mean())

    def gap_of_head(self, head: int) -> float:
        """Return the mean gap of one head, whose index wraps around."""
        return float(self.gaps[head % len(self.gaps)].mean())

    @property
    def top_share(self) -> float:
        """The mean over heads of the largest mean fraction of a position."""
        return float(self.fractions.amax(-1).mean())

    @property
    def share(self) -> float:
        """The mean over heads of the attention on all learned positions."""
        return float(self.taken.mean())


def learned_attention(
    base: FrozenBase, parts: Iterable[Tensor], attached: Attachments, position: int
) -> tuple[LearnedAttention, ...]:
    """Return a content position's attention in every layer, for one replicate.

    Inputs, tokens [1, B, T], come in parts, so that not all patterns are in memory at once.
    """
    seen: list[list[Tensor]] = []
    for tokens in parts:
        layers = observe(base, tokens, attached)
        seen.append([layer.pattern[0, :, :, position, : layer.learned] for layer in layers])
    return tuple(_summed_up(torch.cat(layer)) for layer in zip(*seen, strict=True))


def _summed_up(pattern: Tensor) -> LearnedAttention:
    """Summarise attention [B, H, P] on learned positions."""
    fractions = fraction_over_prefix(pattern)
    return LearnedAttention(
        gaps=percentile_gap(fractions.unsqueeze(0))[0],
        fractions=fractions.mean(0),
        taken=pattern.sum(-1).mean(0),
    )
