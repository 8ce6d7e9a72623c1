"""Items as they are trained on and scored: tokens, targets, and which of the targets count."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_MASKS
from adaptlab.plugins.task import Task


@dataclass(frozen=True)
class Items:
    """Questions with their answers: tokens [S, B, T] that the model is fed, targets [S, B, M].

    `counted` [S, B, M] says which targets loss and score look at, at least the first of every
    item; without it, they look at all.
    """

    tokens: Tensor
    targets: Tensor
    counted: Tensor | None = None

    def each(self, change: Callable[[Tensor], Tensor]) -> "Items":
        """The items that come of the same change to every tensor."""
        counted = None if self.counted is None else change(self.counted)
        return Items(change(self.tokens), change(self.targets), counted)

    def part(self, span: slice) -> "Items":
        """Some of the items of every seed."""
        return self.each(lambda tensor: tensor[:, span])

    def right(self, logits: Tensor) -> Tensor:
        """Which items greedy generation answers rightly [A, B], from logits [A, B, M, V]."""
        found = logits.argmax(-1) == self.targets
        return (found if self.counted is None else found | ~self.counted).all(-1)

    def weight(self, span: slice) -> Tensor | None:
        """The share of every seed's counted targets that some of its items have, [S].

        None where all targets count, and with them the share of items.
        """
        if self.counted is None:
            return None
        return self.counted[:, span].sum((1, 2)) / self.counted.sum((1, 2)).double()


def counted_targets(task: Task, targets: Tensor, draws: Tensor) -> Tensor | None:
    """Which targets [..., M] of items with draws [...] count: the answer and one end token.

    None where all do, as is so for every task whose answers are of one length.
    """
    if task.name in ENGINE_MASKS.names():
        return ENGINE_MASKS.get(task.name)(task, targets, draws)
    end = task.end_token()
    if end is None:
        return None
    ends = targets == end
    return (ends.cumsum(-1) - ends.to(torch.int64)) == 0
