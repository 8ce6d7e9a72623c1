"""Tokens before the items of a task, such as demonstrations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.grouped import lifted
from adaptlab.engine.items import Items
from adaptlab.engine.tensors import Int


@dataclass(frozen=True)
class Context:
    """The tokens before every item, one row per replicate.

    Attributes:
        tokens: the tokens, padded on the right.
        lengths: the number of tokens of each row.
        begun: tokens at the start of an item that begin every text. The context has its own, so
            those of items are left out.
    """

    tokens: Int[Tensor, "R P"]
    lengths: Int[Tensor, "R"]
    begun: int = 0

    def rows(self, rows: Sequence[int]) -> Self:
        """Return the context of some replicates, in this order."""
        return replace(self, tokens=self.tokens[list(rows)], lengths=self.lengths[list(rows)])

    @property
    def longest(self) -> int:
        """The number of tokens of the longest row."""
        return self.tokens.shape[-1]

    def before(self, items: Items) -> Items:
        """Return items [A, B, T], each after the tokens of its replicate.

        Shorter rows are padded behind their items.
        """
        tokens = lifted(items.tokens, len(self.tokens))
        count, read = tokens.shape[1:]
        before = self.tokens.unsqueeze(1).expand(-1, count, -1)
        source = torch.cat([before, tokens, torch.zeros_like(tokens[..., :1])], -1)
        lengths = self.lengths.view(-1, 1, 1)
        place = torch.arange(self.longest + read - self.begun, device=tokens.device)
        behind = (place - lengths + self.begun).clamp(max=read)
        index = torch.where(place < lengths, place, self.longest + behind)
        rows = items.answer_rows
        if rows is None:
            rows = torch.arange(items.span.start, items.span.stop, device=tokens.device)
            rows = rows.expand(*items.tokens.shape[:2], -1)
        else:
            rows = rows + items.first
        rows = lifted(rows, len(tokens)) + lengths - self.begun
        first, last = int(rows.min()), int(rows.max())
        return Items(
            tokens=source.gather(-1, index.expand(-1, count, -1)),
            targets=lifted(items.targets, len(tokens)),
            counted=None if items.counted is None else lifted(items.counted, len(tokens)),
            answer_rows=rows - first,
            first=first,
            length=last + 1 - first,
        )
