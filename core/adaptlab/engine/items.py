"""Items for training and scoring: tokens, targets, counted targets."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_MASKS
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.plugins.task import Task


@dataclass(frozen=True)
class Items:
    """Questions with answers: the model's input tokens, and the targets.

    `counted` marks the targets that loss and score consider, at least the first of every item; None
    if they consider all.
    """

    tokens: Int[Tensor, "S B T"]
    targets: Int[Tensor, "S B M"]
    counted: Bool[Tensor, "S B M"] | None = None

    def each(self, change: Callable[[Tensor], Tensor]) -> "Items":
        """Return the items with the same change made to every tensor."""
        counted = None if self.counted is None else change(self.counted)
        return Items(change(self.tokens), change(self.targets), counted)

    def part(self, span: slice) -> "Items":
        """Return some of the items of every seed."""
        return self.each(lambda tensor: tensor[:, span])

    def right(self, logits: Float[Tensor, "A B M V"]) -> Bool[Tensor, "A B"]:
        """Return a mask of the items that greedy generation answers correctly."""
        correct = logits.argmax(-1) == self.targets
        return (correct if self.counted is None else correct | ~self.counted).all(-1)

    def weight(self, span: slice) -> Float[Tensor, "S"] | None:
        """Return the share of each seed's counted targets in some items.

        None if all targets count; it is then the share of items.
        """
        if self.counted is None:
            return None
        return self.counted[:, span].sum((1, 2)) / self.counted.sum((1, 2)).double()


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
