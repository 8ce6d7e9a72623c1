"""Demonstrations that are the nearest to each question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.items.items import Items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.models.context import placed_before
from adaptlab.engine.tensors import Bool, Float, Int

StatesOf = Callable[[Items], Float[Tensor, "G N C"]]
"""Computes the base model's states at the ends of questions."""


@dataclass(frozen=True)
class Pool:
    """The training items of each replicate that can be demonstrated.

    Attributes:
        questions: the items, as the base model reads them alone.
        tokens: the same items as demonstrations, without the beginning of a text.
        lengths: the number of tokens of each.
        allowed: False for items that occur a second time.
    """

    questions: Items
    tokens: Int[Tensor, "R N L"]
    lengths: Int[Tensor, "R N"]
    allowed: Bool[Tensor, "R N"]

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the pool with the same change made to every tensor."""
        tensors = {name: change(getattr(self, name)) for name in ("tokens", "lengths", "allowed")}
        return replace(self, questions=self.questions.each(change), **tensors)


@dataclass(frozen=True)
class NearestContext:
    """The demonstrations before every item, chosen for it.

    Of the pool of its replicate, an item has the K whose questions are the nearest to its own: with
    the largest cosine of the base model's states behind its last layer and norm, where the answer
    is predicted. `order` says for each place how near its demonstration is, counted from 0.

    Attributes:
        pool: what is chosen from.
        order: a permutation of K for each replicate.
        begin: the tokens that begin every text.
    """

    pool: Pool
    order: Int[Tensor, "R K"]
    begin: tuple[int, ...] = ()
    _states: dict[str, Tensor] = field(default_factory=dict[str, Tensor], compare=False)

    def on(self, device: torch.device) -> Self:
        """Return the context with its tensors on a device."""
        return self._each(lambda tensor: tensor.to(device))

    def rows(self, rows: Sequence[int]) -> Self:
        """Return the context of some replicates, in this order."""
        return self._each(lambda tensor: tensor[list(rows)])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, pool=self.pool.each(change), order=change(self.order), _states={})

    @property
    def longest(self) -> int:
        """The most tokens of K demonstrations."""
        count = self.order.shape[-1]
        longest = self.pool.lengths.sort(-1, descending=True).values[:, :count].sum(-1)
        return len(self.begin) + int(longest.max())

    def before(self, items: Items, states_of: StatesOf) -> Items:
        """Return items [A, B, T], each after the demonstrations chosen for it."""
        nearest = self.nearest(items, states_of)
        chosen = nearest.gather(-1, self.order[:, None].expand(-1, nearest.shape[1], -1))
        tokens, lengths = self._written(chosen)
        return placed_before(items, tokens, lengths, 0, len(self.begin))

    def nearest(self, items: Items, states_of: StatesOf) -> Int[Tensor, "R B K"]:
        """Return the places in the pool of the nearest items, nearest first."""
        if "pool" not in self._states:
            self._states["pool"] = functional.normalize(states_of(self.pool.questions), dim=-1)
        known, replicates = self._states["pool"], len(self.order)
        asked = functional.normalize(states_of(items), dim=-1)
        near = lifted(asked, replicates) @ lifted(known, replicates).transpose(1, 2)
        near = near.masked_fill(~self.pool.allowed[:, None], -torch.inf)
        return near.argsort(dim=-1, descending=True, stable=True)[..., : self.order.shape[-1]]

    def _written(
        self, chosen: Int[Tensor, "R B K"]
    ) -> tuple[Int[Tensor, "R B P"], Int[Tensor, "R B"]]:
        """Return the padded tokens of chosen demonstrations, and their number."""
        count = self.pool.tokens.shape[-1]
        flat = chosen.flatten(1)  # R, B·K
        tokens = self.pool.tokens.gather(1, flat.unsqueeze(-1).expand(-1, -1, count))
        lengths = self.pool.lengths.gather(1, flat)
        place = torch.arange(count, device=tokens.device)
        is_read = place < lengths.unsqueeze(-1)
        shape = (*chosen.shape[:2], -1)
        tokens, is_read = tokens.reshape(shape), is_read.reshape(shape)
        first = (~is_read).to(torch.uint8).argsort(dim=-1, stable=True)[..., : self.longest]
        tokens = tokens.gather(-1, first)
        begin = torch.tensor(self.begin, dtype=tokens.dtype, device=tokens.device)
        begin = begin.expand(*tokens.shape[:2], -1)
        total = lengths.reshape(shape).sum(-1) + len(self.begin)
        return torch.cat([begin, tokens], -1), total
