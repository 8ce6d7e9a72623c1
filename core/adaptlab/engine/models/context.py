"""Tokens before the items of a task, such as demonstrations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.models.label_words import LabelWords
from adaptlab.engine.tensors import Int


@dataclass(frozen=True)
class Context:
    """The tokens before every item, one row per replicate.

    Attributes:
        tokens: the tokens, padded on the right.
        lengths: the number of tokens of each row.
        shortest: at most the number of tokens of any row.
        labels: the number of the demonstration to whose label a token belongs, −1 if to none.
        begun: tokens at the start of an item that begin every text. The context has its own, so
            those of items are left out.
    """

    tokens: Int[Tensor, "R P"]
    lengths: Int[Tensor, "R"]
    shortest: int
    labels: Int[Tensor, "R P"]
    begun: int = 0

    def on(self, device: torch.device) -> Self:
        """Return the context with its tensors on a device."""
        tokens, lengths, labels = (
            tensor.to(device) for tensor in (self.tokens, self.lengths, self.labels)
        )
        return replace(self, tokens=tokens, lengths=lengths, labels=labels)

    def rows(self, rows: Sequence[int]) -> Self:
        """Return the context of some replicates, in this order."""
        chosen = list(rows)
        tokens, lengths, labels = (t[chosen] for t in (self.tokens, self.lengths, self.labels))
        return replace(self, tokens=tokens, lengths=lengths, labels=labels)

    @property
    def longest(self) -> int:
        """The number of tokens of the longest row."""
        return self.tokens.shape[-1]

    def before(self, items: Items) -> Items:
        """Return items [A, B, T], each after the tokens of its replicate.

        Shorter rows are padded behind their items.
        """
        count = items.tokens.shape[1]
        tokens = self.tokens.unsqueeze(1).expand(-1, count, -1)
        lengths = self.lengths.unsqueeze(1).expand(-1, count)
        return placed_before(items, tokens, lengths, self.shortest, self.begun)

    def label_words(self, items: Items) -> LabelWords:
        """Return the labels before items that come after the context."""
        assert items.answer_rows is not None
        return LabelWords(self.labels, items.answer_rows + items.first)


def placed_before(
    items: Items,
    before: Int[Tensor, "R B P"],
    lengths: Int[Tensor, "R B"],
    shortest: int,
    begun: int,
) -> Items:
    """Return items [A, B, T], each after the first `lengths` of other tokens.

    No length is below `shortest`. The first `begun` tokens of an item are left out.
    """
    tokens = lifted(items.tokens, len(before))
    longest, read = before.shape[-1], tokens.shape[-1]
    source = torch.cat([before, tokens, torch.zeros_like(tokens[..., :1])], -1)
    lengths = lengths.unsqueeze(-1)
    place = torch.arange(longest + read - begun, device=tokens.device)
    behind = (place - lengths + begun).clamp(max=read)
    index = torch.where(place < lengths, place, longest + behind)
    rows = lifted(answering_rows(items), len(tokens)) + lengths - begun
    # Not the least and greatest row, for which a recorded step of a GPU cannot wait.
    first = max(0, shortest + items.span.start - begun)
    last = longest + items.span.stop - 1 - begun
    return Items(
        tokens=source.gather(-1, index),
        targets=lifted(items.targets, len(tokens)),
        counted=None if items.counted is None else lifted(items.counted, len(tokens)),
        answer_rows=rows - first,
        first=first,
        length=last + 1 - first,
    )


def answering_rows(items: Items) -> Int[Tensor, "A B M"]:
    """Return the rows that predict the answer of each item."""
    if items.answer_rows is not None:
        return items.answer_rows + items.first
    rows = torch.arange(items.span.start, items.span.stop, device=items.tokens.device)
    return rows.expand(*items.tokens.shape[:2], -1)
