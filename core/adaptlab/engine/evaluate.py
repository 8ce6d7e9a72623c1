"""Exact-match scores on fresh items.

Greedy generation answers an item correctly exactly if the model, given the correct answer so far,
ranks the correct token first at every answer position. So one forward pass scores all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.digits import make_items, target_rows
from adaptlab.engine.grouped import lifted
from adaptlab.engine.items import Items
from adaptlab.engine.model import Model
from adaptlab.engine.tensors import Bool, Float
from adaptlab.measurements.results import Split
from adaptlab.plugins.task import DigitTask
from adaptlab.specs.scoring_pass import items_at_once

ITEM_SEED = 0
"""Held-out items are the same for all replicates and jobs, so that outcomes pair."""


@torch.no_grad()
def outcomes(
    model: Model,
    task: DigitTask,
    split: Split,
    samples: int,
    replicates: int,
    *,
    attached: bool = True,
) -> Bool[Tensor, "{replicates} {samples}"]:
    """Return a mask of correct answers to the first `samples` items.

    Without `attached`, the base model answers alone.
    """
    parts = [
        lifted(items.right(logits), replicates)
        for logits, items in _answers(model, task, split, samples, replicates, attached)
    ]
    return torch.cat(parts, 1)


@torch.no_grad()
def validation(
    model: Model, task: DigitTask, samples: int, replicates: int
) -> tuple[Float[Tensor, "{replicates}"], Float[Tensor, "{replicates}"]]:
    """Return mean cross-entropy and accuracy on validation items."""
    loss = torch.zeros(replicates, dtype=torch.float64, device=model.plan.device)
    right = torch.zeros_like(loss)
    tokens: int | Tensor = 0
    for logits, items in _answers(model, task, "validation", samples, replicates):
        right += lifted(items.right(logits), replicates).sum(1)
        targets = items.targets.expand(len(logits), -1, -1).flatten()
        token_losses = functional.cross_entropy(logits.flatten(0, 2), targets, reduction="none")
        token_losses = token_losses.view(len(logits), -1)
        if items.counted is None:
            tokens += items.targets.numel()
        else:
            tokens += items.counted.sum()
            token_losses = torch.where(items.counted.flatten(1), token_losses, 0)
        loss += lifted(token_losses, replicates).sum(1)
    return loss / tokens, right / samples


def _answers(
    model: Model,
    task: DigitTask,
    split: Split,
    samples: int,
    replicates: int,
    attached: bool = True,
) -> Iterator[tuple[Tensor, Items]]:
    """Yield logits [A, B, M, V] and items [1, B, ...], part by part."""
    shape, device = model.plan.shape, model.plan.device
    lengths = task.sequence_length(), task.target_length()
    at_once = items_at_once(shape, replicates, *lengths)
    for first in range(0, samples, at_once):
        items = _held_out(_Asked(task, split, first, min(at_once, samples - first), device))
        answer = model.logits if attached else model.base_logits
        yield answer(items.tokens, target_rows(task), task=task), items


@dataclass(frozen=True)
class _Asked:
    """Items `first` to `first + count` of a split of a task, on a device."""

    task: DigitTask
    split: Split
    first: int
    count: int
    device: torch.device


@lru_cache(maxsize=8)  # less than a megabyte each; every validation needs the same ones
def _held_out(key: _Asked) -> Items:
    seeds = torch.tensor([ITEM_SEED], device=key.device)
    return make_items(key.task, key.split, seeds, key.first, key.count)
