"""Figures of attention patterns; every pattern's last axis is a distribution over keys."""

import torch
from torch import Tensor


def relative_attention(pattern: Tensor, content: int) -> Tensor:
    """Attention over the last `content` keys, renormalised to one (paper, equation 6).

    Needs some mass on content; where learned positions take everything, use scores instead.
    """
    kept = pattern[..., -content:]
    return kept / kept.sum(-1, keepdim=True)


def learned_mass(pattern: Tensor, content: int) -> Tensor:
    """The attention [...] on the keys before the last `content` ones: alpha of equation 6."""
    return pattern[..., : pattern.shape[-1] - content].sum(-1)


def entropy(pattern: Tensor) -> Tensor:
    """Shannon entropy [...] in nats."""
    return torch.special.entr(pattern).sum(-1)


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """The Jensen-Shannon divergence [...] of two patterns in nats, between 0 and log 2."""
    middle = entropy((first + second) / 2)
    return (middle - (entropy(first) + entropy(second)) / 2).clamp(min=0)


def largest_deviation(first: Tensor, second: Tensor) -> Tensor:
    """The largest absolute difference of two patterns, a scalar."""
    return (first - second).abs().max()
