"""The subspace in which a prefix changes the attention output."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.errors import AdaptlabError
from adaptlab.theory.check import Check, Detail
from adaptlab.theory.equations import ROUNDING
from adaptlab.theory.observation import FrozenBase, observe
from adaptlab.theory.prefix_effect import PrefixEffect, prefix_effects
from adaptlab.values import Value

CONCENTRATED = 0.2
"""A limit above every layer's mean in the paper, at most 0.174 (GPT-2, appendix B)."""


class SpanUse(Value):
    """Use of the span of the prefix values by one head.

    `singular_values` are those of the added parts, one row per sample and position, largest first,
    at most as many as the prefix has rows. `effective_rank` is exp of the entropy of
    the singular values over their sum (Roy, Vetterli, EUSIPCO 2007).
    """

    replicate: int
    layer: int
    head: int
    singular_values: Annotated[tuple[float, ...], Field(min_length=1)]
    effective_rank: float


def span_use(base: FrozenBase, tokens: Tensor, attached: Attachments) -> tuple[SpanUse, ...]:
    """Return the use of the span by every replicate, layer and head."""
    return uses_of(prefix_effects(base, tokens, attached))


def added_part_spans(
    base: FrozenBase, tokens: Tensor, attached: Attachments, tolerance: float = ROUNDING
) -> Check:
    """Check that a head's added part spans at most n_S dimensions (section 4).

    The added part is Σ_m A^pt_im W_V s_m. The measured value is the largest singular value beyond
    the n_S-th, relative to the largest of the attention output.

    Raises:
        AdaptlabError: if a head has no more dimensions than the prefix has rows, so that the check
            could not fail.
    """
    return span_of(prefix_effects(base, tokens, attached), tolerance)


def span_of(effects: Sequence[PrefixEffect], tolerance: float = ROUNDING) -> Check:
    """Check the span for a prefix's effects on all layers, first layer first."""
    ranks = [use.effective_rank for use in uses_of(effects)]
    return spans_at_most(
        most_beyond(effects),
        tolerance,
        prefix_length=max(effect.after.learned for effect in effects),
        effective_ranks=tuple(ranks),
        mean_effective_rank=sum(ranks) / len(ranks),
    )


def spans_at_most(beyond: float, tolerance: float = ROUNDING, **details: Detail) -> Check:
    """Report the check from the largest singular value beyond the n_S-th."""
    return Check.at_most(
        "added-part-spans",
        "Equation 7: what a prefix of n_S rows adds in a head spans at most n_S dimensions.",
        beyond,
        tolerance,
        **details,
    )


def most_beyond(effects: Sequence[PrefixEffect]) -> float:
    """Return the largest relative singular value beyond the n_S-th."""
    return max(_beyond(effect) for effect in effects)


def uses_of(effects: Sequence[PrefixEffect]) -> tuple[SpanUse, ...]:
    """Return each head's use of the span, from a prefix's effects."""
    return tuple(use for layer, effect in enumerate(effects) for use in _uses(effect, layer))


def attention_over_prefix(
    base: FrozenBase, tokens: Tensor, attached: Attachments, most: float = CONCENTRATED
) -> Check:
    """Check that attention over a prefix varies little (appendix B).

    This is the last token's attention, renormalised to one over the prefix. A position's gap is
    between its 99th and 1st percentile over the B samples of tokens [R, B, T]. The measured value
    is the largest over layers of the mean gap over positions, heads and replicates; the paper
    considers only head l of layer l. The claim is an observation on trained prefixes, not a
    theorem.

    Raises:
        AdaptlabError: if the prefix has fewer than two rows.
    """
    seen = observe(base, tokens, attached)
    lengths = {layer.learned for layer in seen}
    if min(lengths) < 2:
        raise AdaptlabError(
            f"The prefix has {min(lengths)} rows in some layer; attention over them can vary only "
            "between 2 or more: give a longer one."
        )
    fractions = [fraction_over_prefix(layer.pattern[..., -1, : layer.learned]) for layer in seen]
    gaps = [float(percentile_gap(fraction).mean()) for fraction in fractions]
    largest = [float(fraction.mean((0, 1, 2)).max()) for fraction in fractions]
    return Check.at_most(
        "attention-over-prefix",
        "Appendix B: attention over the prefix positions varies little over inputs.",
        max(gaps),
        most,
        samples=tokens.shape[1],
        mean_gap_by_layer=tuple(gaps),
        largest_fraction_by_layer=tuple(largest),
    )


def fraction_over_prefix(pattern: Tensor) -> Tensor:
    """Renormalise attention [..., P] on learned positions to one over them."""
    return pattern / pattern.sum(-1, keepdim=True).clamp_min(torch.finfo(pattern.dtype).tiny)


def percentile_gap(fractions: Tensor) -> Tensor:
    """Return the gap [R, H, P] between 99th and 1st percentile over samples."""
    low, high = (fractions.quantile(q, 1) for q in (0.01, 0.99))
    return high - low


def effective_rank(singular_values: Sequence[float]) -> float:
    """Return exp of the entropy of the values over their sum; 0 if all are 0."""
    values = torch.tensor(singular_values, dtype=torch.float64)
    if not float(values.sum()):
        return 0.0
    return float(torch.special.entr(values / values.sum()).sum().exp())


def _uses(effect: PrefixEffect, layer: int) -> Iterator[SpanUse]:
    singular_values = torch.linalg.svdvals(_by_head(effect.addition))[
        ..., : max(1, effect.after.learned)
    ]
    for replicate, heads in enumerate(singular_values.tolist()):
        for head, values in enumerate(heads):
            rank = effective_rank(values)
            yield SpanUse(
                replicate=replicate,
                layer=layer,
                head=head,
                singular_values=tuple(values),
                effective_rank=rank,
            )


def _beyond(effect: PrefixEffect) -> float:
    added, length = _by_head(effect.addition), effect.after.learned
    if length >= min(added.shape[-2:]):
        raise AdaptlabError(
            f"The prefix has {length} rows and what a head gathers {min(added.shape[-2:])} "
            "dimensions, which it spans whatever is true; give a shorter prefix or more tokens."
        )
    whole = torch.linalg.svdvals(_by_head(effect.after.gathered))[..., 0]
    return float((torch.linalg.svdvals(added)[..., length] / whole).max())


def _by_head(x: Tensor) -> Tensor:
    """Reshape outputs [R, B, H, T, D] to a matrix per head, [R, H, B·T, D]."""
    return x.transpose(1, 2).flatten(2, 3)
