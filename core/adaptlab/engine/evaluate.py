"""Exact-match scores on fresh items.

Greedy generation answers an item correctly exactly if the model, given the correct answer so far,
ranks the correct token first at every answer position. So one forward pass scores all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.grouped import lifted
from adaptlab.engine.items import Items
from adaptlab.engine.making import right_places, scored_items
from adaptlab.engine.model import Model
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.measurements.results import Confusion, Split
from adaptlab.plugins.task import Task
from adaptlab.specs.scoring_pass import items_at_once
from adaptlab.text.metrics import MOST_CONFUSED


@dataclass(frozen=True)
class Judged:
    """Answers to the first items of a split.

    Attributes:
        right: a mask of the correct ones.
        given: the places of the chosen labels, None if the task does not choose from a list.
        expected: the places of the right labels, likewise.
        loss: the mean cross-entropy of all counted tokens in nats; None if it was not asked for.
    """

    right: Bool[Tensor, "R N"]
    given: Int[Tensor, "R N"] | None = None
    expected: Int[Tensor, "N"] | None = None
    loss: Float[Tensor, "R"] | None = None

    def rows(self, rows: Sequence[int]) -> "Judged":
        """Return the answers of some replicates, in this order."""
        given = None if self.given is None else self.given[rows]
        loss = None if self.loss is None else self.loss[rows]
        return Judged(self.right[rows], given, self.expected, loss)


@torch.no_grad()
def judged(
    model: Model,
    task: Task,
    split: Split,
    samples: int,
    replicates: int,
    *,
    attached: bool = True,
    with_loss: bool = True,
) -> Judged:
    """Return the answers to the first `samples` items.

    Without `attached`, the base model answers alone. Without `with_loss`, no loss is computed.
    """
    shape, device = (replicates, samples), model.plan.device
    expected = right_places(task, split, samples)
    # A mask of the right ones, or the places of the chosen ones if the task has a list.
    kind = torch.bool if expected is None else torch.int64
    found = torch.zeros(shape, dtype=kind, device=device)
    losses = _Losses(replicates, device)

    def answer(items: Items) -> Tensor:
        return model.answers(items, task=task, attached=attached)

    for places, items in scored_parts(model, task, split, samples, replicates):
        if expected is None:
            logits = answer(items)
            found[:, places] = lifted(items.right(logits, answer), replicates)
        else:
            logits = answer(items) if with_loss else None
            chosen = items.choose(answer, logits)
            assert chosen is not None
            found[:, places] = lifted(chosen, replicates)
        if with_loss and logits is not None:
            losses.add(items, logits)
    loss = losses.mean() if with_loss else None
    if expected is None:
        return Judged(found, loss=loss)
    return Judged(found == expected.to(device), found, expected, loss)


def confusion_of(task: Task, answers: Judged, row: int) -> Confusion | None:
    """Return the counts of labels of one replicate.

    None unless the task has few labels.
    """
    labels = tuple(task.listed_answers())
    if answers.given is None or answers.expected is None or not 2 <= len(labels) <= MOST_CONFUSED:
        return None
    cells = answers.expected * len(labels) + answers.given[row].cpu()
    counts: list[list[int]] = (
        cells.bincount(minlength=len(labels) ** 2).view(len(labels), -1).tolist()
    )
    return Confusion(labels=labels, counts=tuple(map(tuple, counts)))


class _Losses:
    """The mean cross-entropy of the counted tokens of items, by replicate."""

    def __init__(self, replicates: int, device: torch.device) -> None:
        self._sum = torch.zeros(replicates, dtype=torch.float64, device=device)
        self._tokens: int | Tensor = 0

    def add(self, items: Items, logits: Tensor) -> None:
        """Add the losses of some items [1, B, ...] that all replicates answered."""
        counted = items.counted
        self._tokens += items.targets.numel() if counted is None else counted.sum()
        self._sum += lifted(items.token_losses(logits).flatten(1), len(self._sum)).sum(1)

    def mean(self) -> Float[Tensor, "R"]:
        """Return the mean in nats per token."""
        return self._sum / self._tokens


def scored_parts(
    model: Model, task: Task, split: Split, samples: int, replicates: int
) -> Iterator[tuple[Tensor, Items]]:
    """Yield items [1, B, ...] with their places, as many as fit in one pass."""
    shape, device = model.plan.shape, model.plan.device
    before = 0 if model.context is None else model.context.longest
    lengths = before + task.sequence_length(), task.target_length()
    at_once = items_at_once(shape, replicates, *lengths)
    yield from scored_items(task, split, samples, at_once, device)
