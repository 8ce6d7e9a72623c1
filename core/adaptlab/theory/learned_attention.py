"""How one position's attention over learned positions varies over inputs (appendix B, E7)."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.theory.observation import FrozenBase, observe
from adaptlab.theory.span import fraction_over_prefix, percentile_gap


@dataclass(frozen=True)
class LearnedAttention:
    """Attention of one replicate and layer over P learned positions, renormalised to one over them.

    `gaps` [H, P] are those between the 99th and 1st percentile over inputs, `fractions` [H, P] the
    means and `taken` [H] the mean attention on all of them together.
    """

    gaps: Tensor
    fractions: Tensor
    taken: Tensor

    @property
    def gap(self) -> float:
        """The mean over heads and positions."""
        return float(self.gaps.mean())

    def gap_of_head(self, head: int) -> float:
        """The mean over positions of one head, counted round the heads that there are."""
        return float(self.gaps[head % len(self.gaps)].mean())

    @property
    def top_share(self) -> float:
        """The mean over heads of what the position gets that gets most on average."""
        return float(self.fractions.amax(-1).mean())

    @property
    def share(self) -> float:
        """The mean over heads of the attention on all learned positions."""
        return float(self.taken.mean())


def learned_attention(
    base: FrozenBase, parts: Iterable[Tensor], attached: Attachments, position: int
) -> tuple[LearnedAttention, ...]:
    """The attention of a content position in every layer, for one replicate.

    The inputs, tokens [1, B, T], come in parts, so that not all patterns are held at once.
    """
    seen: list[list[Tensor]] = []
    for tokens in parts:
        layers = observe(base, tokens, attached)
        seen.append([layer.pattern[0, :, :, position, : layer.learned] for layer in layers])
    return tuple(_summed_up(torch.cat(layer)) for layer in zip(*seen, strict=True))


def _summed_up(pattern: Tensor) -> LearnedAttention:
    """From attention [B, H, P] on learned positions."""
    fractions = fraction_over_prefix(pattern)
    return LearnedAttention(
        gaps=percentile_gap(fractions.unsqueeze(0))[0],
        fractions=fractions.mean(0),
        taken=pattern.sum(-1).mean(0),
    )
