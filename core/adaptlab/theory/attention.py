"""Figures of attention patterns, whose last axis is over keys."""

import torch
from torch import Tensor


def relative_attention(pattern: Tensor, content: int) -> Tensor:
    """Return attention over the last `content` keys, renormalised to one.

    This is the paper's equation 6. It needs some mass on content; if learned positions take
    everything, use scores instead.
    """
    kept = pattern[..., -content:]
    return kept / kept.sum(-1, keepdim=True)


def learned_mass(pattern: Tensor, content: int) -> Tensor:
    """Return the attention on all but the last `content` keys: α."""
    return pattern[..., : pattern.shape[-1] - content].sum(-1)


def entropy(pattern: Tensor) -> Tensor:
    """Return the Shannon entropy [...] in nats."""
    return torch.special.entr(pattern).sum(-1)


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence [...] in nats, between 0 and log 2."""
    middle = entropy((first + second) / 2)
    return (middle - (entropy(first) + entropy(second)) / 2).clamp(min=0)


def largest_deviation(first: Tensor, second: Tensor) -> Tensor:
    """Return the largest absolute difference of two patterns, a scalar."""
    return (first - second).abs().max()
