"""What attention works on: streams of positions, and products over heads that replicates share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine import grouped

EVERY_ROW = slice(None)
KeysValues = tuple[Tensor, Tensor]  # each R, B or 1, K heads, positions, D


@dataclass(frozen=True)
class Stream:
    """What passes through one layer: N positions from `first` on, of which `rows` go on.

    Virtual tokens have None for `rows`, and are neither cut nor recorded. At the positions that go
    on, x is [R, B, Q, C], `source` x after the norm, where a hook asks for it, and `queries` are
    [R, B, H, Q, D]; `own` are the keys and values at all positions.
    """

    x: Tensor
    source: Tensor | None
    queries: Tensor
    own: KeysValues
    first: int
    rows: slice | None

    @property
    def length(self) -> int:
        """The number N of positions; 0 for virtual tokens, which know no dropout."""
        return 0 if self.rows is None else self.own[0].shape[-2]

    def of_tokens(self, tokens: Tensor) -> Self:
        """The stream of tokens [A, B, N] from that of items of one token each, [R, V, N, ...]."""
        going_on = tokens[..., self.rows or EVERY_ROW]
        return replace(
            self,
            x=grouped.chosen(self.x, going_on),
            source=None if self.source is None else grouped.chosen(self.source, going_on),
            queries=_chosen_by_head(self.queries, going_on),
            own=(_chosen_by_head(self.own[0], tokens), _chosen_by_head(self.own[1], tokens)),
        )


def _chosen_by_head(table: Tensor, tokens: Tensor) -> Tensor:
    """The vectors [R, B, H, N, D] of tokens [A, B, N] in a table [R, V, H, N, D]."""
    return grouped.chosen(table.transpose(2, 3), tokens).transpose(2, 3)


def by_group(left: Tensor, right: Tensor) -> Tensor:
    """The products of left [R, B, H, Q, N] with right [R, B, K, N, M], of K heads that H share.

    Where one side is shared by replicates, theirs stand side by side in one product.
    """
    if len(left) > len(right):
        rows = left.unflatten(0, (len(right), -1)).movedim(1, 3)  # A, B, H, R/A, Q, N
        found = by_group(rows.flatten(3, 4), right).unflatten(3, rows.shape[3:5])
        return found.movedim(3, 1).flatten(0, 1)
    if len(right) > len(left):
        columns = right.unflatten(0, (len(left), -1)).movedim(1, -2)  # A, B, K, N, R/A, M
        found = by_group(left, columns.flatten(-2)).unflatten(-1, columns.shape[-2:])
        return found.movedim(-2, 1).flatten(0, 1)
    heads, groups, count = left.shape[2], right.shape[2], left.shape[3]
    if heads == groups:
        return left @ right
    stacked = left.unflatten(2, (groups, -1)).flatten(3, 4)  # R, B, K, H/K·Q, N
    return (stacked @ right).unflatten(3, (-1, count)).flatten(2, 3)


def causal_mask(length: int, rows: slice, like: Tensor) -> Tensor:
    """0 where a query row may look, minus infinity where it may not; [Q, T]."""
    return _causal_mask(length, like.dtype, like.device)[rows]


@lru_cache(maxsize=8)  # every layer of every step adds the same one
def _causal_mask(length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full((length, length), -torch.inf, dtype=dtype, device=device).triu(1)


def for_samples(pairs: Sequence[KeysValues], x: Tensor) -> list[KeysValues]:
    """Learned keys and values, which all samples share, for every sample of x [R, B, ...]."""
    sizes = (-1, x.shape[1], -1, -1, -1)
    return [(keys.expand(sizes), values.expand(sizes)) for keys, values in pairs]


def until(position: int, pair: KeysValues) -> KeysValues:
    """The keys and values of the positions before the given one."""
    keys, values = pair
    return keys[..., :position, :], values[..., :position, :]


def joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """The parts [A, ...] one after the other along an axis, for as many replicates as any has."""
    most = max(len(part) for part in parts)
    return torch.cat([grouped.lifted(part, most) for part in parts], axis)
