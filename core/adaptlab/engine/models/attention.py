"""Attention: streams of positions, and products over shared heads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.tensors import Float, Int

EVERY_ROW = slice(None)
KeysValues = tuple[Tensor, Tensor]  # each R, B or 1, K heads, positions, D


@dataclass(frozen=True)
class Stream:
    """The input of one layer: N positions, of which `rows` are kept.

    The positions begin at `first`.

    Virtual tokens have None for `rows`: all are kept, and none is recorded. x, `source` and
    `queries` are at the kept positions; `source` is x after the norm, if a hook needs it. `own` are
    the keys and values at all positions.

    With `tokens`, queries, keys and values are those of every token of the vocabulary at each
    position, [A, V, H, ...], and not looked up yet.
    """

    x: Float[Tensor, "A B Q C"]
    source: Float[Tensor, "A2 B Q C"] | None
    queries: Float[Tensor, "A3 B2 H Q D"]
    own: KeysValues
    first: int
    rows: slice | None
    tokens: Int[Tensor, "A4 B N"] | None = None

    @property
    def length(self) -> int:
        """The number N of positions; 0 for virtual tokens, which have no dropout."""
        return 0 if self.rows is None else self.own[0].shape[-2]

    def of_tokens(self, tokens: Int[Tensor, "A B N"]) -> Self:
        """Return the stream of tokens, if this one has all tokens for items.

        This stream is [R, V, N, ...].
        """
        going_on = tokens[..., self.rows or EVERY_ROW]
        return replace(
            self,
            x=grouped.chosen(self.x, going_on),
            source=None if self.source is None else grouped.chosen(self.source, going_on),
            tokens=tokens,
        )

    def looked_up(self) -> Self:
        """Return the same stream with queries, keys and values of items."""
        if self.tokens is None:
            return self
        going_on = self.tokens[..., self.rows or EVERY_ROW]
        keys, values = (_chosen_by_head(table, self.tokens) for table in self.own)
        queries = _chosen_by_head(self.queries, going_on)
        return replace(self, queries=queries, own=(keys, values), tokens=None)


def _chosen_by_head(table: Tensor, tokens: Tensor) -> Tensor:
    """Look up tokens [A, B, N] in a table [R, V, H, N, D]."""
    return grouped.chosen(table.transpose(2, 3), tokens).transpose(2, 3)


def by_group(
    left: Float[Tensor, "A B H Q N"], right: Float[Tensor, "A2 B2 K N M"]
) -> Float[Tensor, "R B3 H Q M"]:
    """Multiply left by right; H heads on the left share K on the right.

    If replicates share one side, their matrices of the other are combined in one product.
    """
    if len(left) > len(right):
        rows = left.unflatten(0, (len(right), -1)).movedim(1, 3)  # A, B, H, R/A, Q, N
        product = by_group(rows.flatten(3, 4), right).unflatten(3, rows.shape[3:5])
        return product.movedim(3, 1).flatten(0, 1)
    if len(right) > len(left):
        columns = right.unflatten(0, (len(left), -1)).movedim(1, -2)  # A, B, K, N, R/A, M
        product = by_group(left, columns.flatten(-2)).unflatten(-1, columns.shape[-2:])
        return product.movedim(-2, 1).flatten(0, 1)
    heads, groups, count = left.shape[2], right.shape[2], left.shape[3]
    if heads == groups:
        return left @ right
    stacked = left.unflatten(2, (groups, -1)).flatten(3, 4)  # R, B, K, H/K·Q, N
    return (stacked @ right).unflatten(3, (-1, count)).flatten(2, 3)


def causal_mask(length: int, rows: slice, like: Tensor) -> Float[Tensor, "Q {length}"]:
    """Return the mask to add to scores: 0, or −inf for later keys."""
    return _causal_mask(length, like.dtype, like.device)[rows]


@lru_cache(maxsize=8)  # every layer of every step adds the same one
def _causal_mask(length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full((length, length), -torch.inf, dtype=dtype, device=device).triu(1)


def for_samples(pairs: Sequence[KeysValues], x: Float[Tensor, "R B ..."]) -> list[KeysValues]:
    """Expand learned keys and values to every sample of x."""
    sizes = (-1, x.shape[1], -1, -1, -1)
    return [(keys.expand(sizes), values.expand(sizes)) for keys, values in pairs]


def until(position: int, pair: KeysValues) -> KeysValues:
    """Return the keys and values of the positions before the given one."""
    keys, values = pair
    return keys[..., :position, :], values[..., :position, :]


def joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenate parts [A, ...] along an axis, repeated to the largest A."""
    most = max(len(part) for part in parts)
    return torch.cat([grouped.lifted(part, most) for part in parts], axis)
