"""The effect of a prefix on one layer, with the same content input."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments
from adaptlab.errors import AdaptlabError
from adaptlab.theory.attention import learned_mass
from adaptlab.theory.observation import Attention, FrozenBase, observe

T = TypeVar("T")


@dataclass(frozen=True)
class PrefixEffect:
    """One layer without its own prefix rows, and with them.

    `content` [R, B, H, T, D] is t_i, attention over content alone, from the weights of the base;
    `taken` [R, B, H, T, 1] is α_i, and `offered` [R, B or 1, H, P, D] are the values W_V s of the
    learned positions.
    """

    before: Attention
    after: Attention
    content: Tensor
    offered: Tensor

    @property
    def taken(self) -> Tensor:
        """The attention on learned positions, α_i."""
        return learned_mass(self.after.pattern, self.before.relative.shape[-1]).unsqueeze(-1)

    @property
    def expected_addition(self) -> Tensor:
        """Σ_m A^pt_im W_V s_m, [R, B, H, T, D]; α_i W_V s for one position."""
        stop, count = self.after.learned, self.offered.shape[-2]
        # A share that queries take comes first, and offers nothing.
        return self.after.pattern[..., stop - count : stop] @ self.offered

    @property
    def addition(self) -> Tensor:
        """The attention output beyond (1 - α_i) t_i, [R, B, H, T, D]."""
        return self.after.gathered - (1 - self.taken) * self.content


def prefix_effects(
    base: FrozenBase, tokens: Tensor, attached: Attachments
) -> tuple[PrefixEffect, ...]:
    """Return a prefix's effect on every attention layer, for tokens [R, B, T].

    Attachments to earlier layers are present in both runs, so that a layer gets the same input;
    those to the layer itself only in the second.

    Raises:
        AdaptlabError: if learned positions are not in front of a layer's attention.
    """
    attached = _checked(base, tokens, attached)
    first, *blocks = (int(name.split(".")[1]) for name in base.layers)
    before = observe(base, tokens, below(attached, first))
    effects: list[PrefixEffect] = []
    for layer, stop in enumerate([*blocks, None]):
        after = observe(base, tokens, attached if stop is None else below(attached, stop))
        effects.append(_effect(base, attached, before[layer], after[layer]))
        before = after  # later layers do not affect a layer
    return tuple(effects)


def _checked(base: FrozenBase, tokens: Tensor, attached: Attachments) -> Attachments:
    if attached.prompt is not None or attached.late_prompt is not None or attached.suffixes:
        raise AdaptlabError(
            "Virtual tokens and suffixes were attached, and these identities are about rows in "
            "front of every layer's attention; give a prefix."
        )
    return replace(attached, replicates=max(len(tokens), base.groups, _replicates(attached)))


def _effect(
    base: FrozenBase, attached: Attachments, before: Attention, after: Attention
) -> PrefixEffect:
    content = before.relative @ values(base, before, before.source)
    pair = attached.keys_values.get(f"{after.name}.kv")
    return PrefixEffect(before, after, content, _offered(base, after, pair, attached))


def _replicates(attached: Attachments) -> int:
    """Return R, the largest of the attachments' replicates and their tensors'."""
    rows = [len(tensor) for tensor in attached.attention_inputs.values()]
    pairs = [len(keys) for keys, _ in attached.keys_values.values()]
    return max([attached.replicates, *rows, *pairs])


def values(base: FrozenBase, seen: Attention, source: Tensor) -> Tensor:
    """Return W_V x + b_V of source [R, B, N, C], [R, B, H, N, D]."""
    weight, bias = (base.weights.get(f"{seen.name}.v.{part}") for part in ("weight", "bias"))
    assert weight is not None
    return by_query_head(grouped.linear(source, weight, bias), seen)


def by_query_head(x: Tensor, seen: Attention) -> Tensor:
    """Repeat values [R, B, N, K·D] of K heads for H query heads."""
    heads = x.unflatten(-1, (-1, seen.gathered.shape[-1])).transpose(2, 3)
    return heads.repeat_interleave(seen.heads // heads.shape[2], 2)


def below(attached: Attachments, block: int) -> Attachments:
    """Return the attachments to earlier blocks, or to no block."""

    def kept(site: str) -> bool:
        parts = site.split(".")
        return parts[0] != "blocks" or int(parts[1]) < block

    def chosen(sites: Mapping[str, T]) -> dict[str, T]:
        return {site: entry for site, entry in sites.items() if kept(site)}

    return replace(
        attached,
        weights=chosen(attached.weights),
        outputs=chosen(attached.outputs),
        products=chosen(attached.products),
        inputs=chosen(attached.inputs),
        mixes=chosen(attached.mixes),
        queries=chosen(attached.queries),
        attention_inputs=chosen(attached.attention_inputs),
        keys_values=chosen(attached.keys_values),
    )


def _offered(
    base: FrozenBase, after: Attention, pair: tuple[Tensor, Tensor] | None, attached: Attachments
) -> Tensor:
    """Return the values of all learned positions, in the order of the pattern."""
    parts = [values(base, after, source) for source in after.virtual]
    if pair is not None:
        place = int(f"{after.name}.input" in attached.attention_inputs)
        parts.insert(place, by_query_head(pair[1].unsqueeze(1), after))
    if not parts:  # an update of weights only: no learned positions
        return after.gathered.new_zeros(1, 1, after.heads, 0, after.gathered.shape[-1])
    rows, samples = (max(part.shape[axis] for part in parts) for axis in (0, 1))
    return torch.cat(
        [grouped.lifted(part, rows).expand(-1, samples, -1, -1, -1) for part in parts], 3
    )
