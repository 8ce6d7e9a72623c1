"""Exact-match scores on fresh items.

Greedy generation answers an item correctly exactly if the model, given the correct answer so far,
ranks the correct token first at every answer position. So one forward pass scores all of them.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from adaptlab.engine.grouped import lifted
from adaptlab.engine.items import Items
from adaptlab.engine.making import scored_items
from adaptlab.engine.model import Model
from adaptlab.engine.tensors import Bool, Float
from adaptlab.measurements.results import Split
from adaptlab.plugins.task import Task
from adaptlab.specs.scoring_pass import items_at_once


@torch.no_grad()
def outcomes(
    model: Model,
    task: Task,
    split: Split,
    samples: int,
    replicates: int,
    *,
    attached: bool = True,
) -> Bool[Tensor, "{replicates} {samples}"]:
    """Return a mask of correct answers to the first `samples` items.

    Without `attached`, the base model answers alone.
    """
    right = torch.zeros(replicates, samples, dtype=torch.bool, device=model.plan.device)

    def answer(items: Items) -> Tensor:
        return model.answers(items, task=task, attached=attached)

    for places, items in scored_parts(model, task, split, samples, replicates):
        right[:, places] = lifted(items.right(answer(items), answer), replicates)
    return right


@torch.no_grad()
def validation(
    model: Model, task: Task, samples: int, replicates: int
) -> tuple[Float[Tensor, "{replicates}"], Float[Tensor, "{replicates}"]]:
    """Return mean cross-entropy and accuracy on validation items."""
    loss = torch.zeros(replicates, dtype=torch.float64, device=model.plan.device)
    right = torch.zeros_like(loss)
    tokens: int | Tensor = 0

    def answer(items: Items) -> Tensor:
        return model.answers(items, task=task)

    for _, items in scored_parts(model, task, "validation", samples, replicates):
        logits = answer(items)
        right += lifted(items.right(logits, answer), replicates).sum(1)
        tokens += items.targets.numel() if items.counted is None else items.counted.sum()
        loss += lifted(items.token_losses(logits).flatten(1), replicates).sum(1)
    return loss / tokens, right / samples


def scored_parts(
    model: Model, task: Task, split: Split, samples: int, replicates: int
) -> Iterator[tuple[Tensor, Items]]:
    """Yield items [1, B, ...] with their places, as many as fit in one pass."""
    shape, device = model.plan.shape, model.plan.device
    lengths = task.sequence_length(), task.target_length()
    at_once = items_at_once(shape, replicates, *lengths)
    yield from scored_items(task, split, samples, at_once, device)
