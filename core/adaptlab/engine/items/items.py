"""Items for training and scoring: tokens, targets, counted targets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels.cross_entropy import cross_entropy
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.plugins import ENGINE_MASKS
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.plugins.task import Task


@dataclass(frozen=True)
class Items:
    """Questions with answers: the model's input tokens, and the targets.

    `counted` marks the targets that loss and score consider, at least the first of every item; None
    if they consider all.

    Where items have one length, their answers are the last rows of the tokens. Where they differ,
    tokens are padded on the right, `answer_rows` has the rows of each item's answer, and `first`
    and `length` the rows from the first to the last of any; `answer_rows` are counted from `first`.

    Where the answer is a class, the targets are the classes, M is 1, and the row is that of an
    item's last token. There, and where an encoder fills in masks behind texts, `read` is the number
    of an item's tokens without padding.
    """

    tokens: Int[Tensor, "S B T"]
    targets: Int[Tensor, "S B M"]
    counted: Bool[Tensor, "S B M"] | None = None
    answer_rows: Int[Tensor, "S B M"] | None = None
    first: int = 0
    length: int = 0
    read: Int[Tensor, "S B"] | None = None

    @property
    def span(self) -> slice:
        """The rows whose logits predict answers."""
        if self.answer_rows is not None:
            return slice(self.first, self.first + self.length)
        read, answered = self.tokens.shape[-1], self.targets.shape[-1]
        return slice(read - answered, read)

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the items with the same change made to every tensor."""
        counted, rows = (
            None if tensor is None else change(tensor)
            for tensor in (self.counted, self.answer_rows)
        )
        read = None if self.read is None else change(self.read.unsqueeze(-1)).squeeze(-1)
        return replace(
            self,
            tokens=change(self.tokens),
            targets=change(self.targets),
            counted=counted,
            answer_rows=rows,
            read=read,
        )

    def part(self, span: slice) -> Self:
        """Return some of the items of every seed."""
        return self.each(lambda tensor: tensor[:, span])

    def padded(self, length: int) -> Self:
        """Return the items with their tokens padded to a length."""
        added = length - self.tokens.shape[-1]
        if self.answer_rows is None or added <= 0:
            return self
        return replace(self, tokens=functional.pad(self.tokens, (0, added)))

    def right(
        self, logits: Float[Tensor, "A B M V"], answer: "Answer | None" = None
    ) -> Bool[Tensor, "A B"]:
        """Return a mask of the items that greedy generation answers correctly.

        `answer` computes the logits of other items, for tasks that compare several answers.
        """
        correct = logits.argmax(-1) == self.targets
        return (correct if self.counted is None else correct | ~self.counted).all(-1)

    def choose(
        self, answer: "Answer", logits: Float[Tensor, "A B M V"] | None = None
    ) -> Int[Tensor, "A B"] | None:
        """Return the places of the chosen answers, if they are chosen from a list.

        None if any tokens can be the answer. `answer` computes logits, as for `right`, also those
        of these items unless they are given.
        """
        if self.read is None:
            return None
        return (answer(self) if logits is None else logits)[:, :, 0].argmax(-1)

    def compared(
        self, answer: "Answer", logits: Float[Tensor, "A B M V"] | None = None
    ) -> "tuple[Int[Tensor, 'A B'], Float[Tensor, 'A B'] | None]":
        """Return the places of the answers chosen from a list, and their leads.

        The second is how far each is ahead, None unless the likelihoods of an item's own requests
        are compared.
        """
        chosen = self.choose(answer, logits)
        assert chosen is not None, "answers are chosen from a list"
        return chosen, None

    def token_losses(self, logits: Float[Tensor, "A B M V"]) -> Float[Tensor, "A B M"]:
        """Return the cross-entropy of every target, 0 where it is not counted."""
        targets = lifted(self.targets, len(logits))
        losses = cross_entropy(logits.flatten(0, 2), targets.flatten()).view(targets.shape)
        if self.counted is None:
            return losses
        return torch.where(lifted(self.counted, len(logits)), losses, 0)

    def item_losses(
        self, logits: Float[Tensor, "A B M V"], answer: "Answer"
    ) -> Float[Tensor, "A B"]:
        """Return the cross-entropy of each item's counted targets, in 64 bits.

        `answer` computes the logits of other items, for items that are read in several passes.
        """
        return self.token_losses(logits).double().sum(-1)

    def counted_tokens(self) -> Int[Tensor, "B"]:
        """Return the number of counted targets of every item of the first seed."""
        if self.counted is None:
            return torch.full_like(self.targets[0, :, 0], self.targets.shape[-1])
        return self.counted[0].sum(-1)

    def weight(self, span: slice) -> Float[Tensor, "S"] | None:
        """Return the share of each seed's counted targets in some items.

        None if all targets count; it is then the share of items.
        """
        if self.counted is None:
            return None
        return self.counted[:, span].sum((1, 2)) / self.counted.sum((1, 2)).double()


Answer = Callable[[Items], Float[Tensor, "A B M V"]]
"""Computes the logits of items' answers."""


def counted_targets(
    task: Task, targets: Int[Tensor, "*S M"], draws: Int[Tensor, "*S"]
) -> Bool[Tensor, "*S M"] | None:
    """Return a mask of the counted targets: the answer and one end token.

    None if all count, as in every task whose answers have one length.
    """
    if task.name in ENGINE_MASKS.names():
        return ENGINE_MASKS.get(task.name)(task, targets, draws)
    end = task.end_token()
    if end is None:
        return None
    is_end = targets == end
    return (is_end.cumsum(-1) - is_end.to(torch.int64)) == 0


def spans(
    tokens: Int[Tensor, "N"], starts: Int[Tensor, "*S"], lengths: Int[Tensor, "*S"], most: int
) -> Int[Tensor, "*S {most}"]:
    """Return spans of tokens, padded with 0 to `most`."""
    place = torch.arange(most)
    index = (starts.unsqueeze(-1) + place).clamp(max=len(tokens) - 1)
    return torch.where(place < lengths.unsqueeze(-1), tokens[index].to(torch.int64), 0)
