"""Items of any task: generated, or taken from texts or images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from adaptlab.engine.items import digits
from adaptlab.engine.items.images import image_items, images_of
from adaptlab.engine.items.items import Items
from adaptlab.engine.items.texts import (
    chosen_items,
    groups_of_texts,
    items_of_step,
    right_choices,
    scored_order,
    text_items,
)
from adaptlab.engine.tensors import Int
from adaptlab.errors import AdaptlabError
from adaptlab.plugins.image_task import ImageTask
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import DigitTask, Task
from adaptlab.plugins.text_task import TextTask

STEPS_OF_DATA = 16
ITEM_SEED = 0
"""Held-out items are the same for all replicates and jobs, so that outcomes pair."""


def make_items(task: Task, split: Split, seeds: Int[Tensor, "S"], first: int, count: int) -> Items:
    """Return items `first` to `first + count` of a split, for every seed."""
    if isinstance(task, TextTask):
        return text_items(task, split, seeds, first, count)
    if isinstance(task, ImageTask):
        return image_items(task, split, seeds, first, count)
    return digits.make_items(as_digit_task(task), split, seeds, first, count)


def items_of_steps(task: Task, seeds: Int[Tensor, "S"], size: int, steps: range) -> Iterator[Items]:
    """Yield the training items [S, size, ...] of each step.

    Items of several steps are generated at once, because a few cost as much as many. Texts are not
    generated, and those of a step have similar lengths.
    """
    if isinstance(task, TextTask):
        yield from (items_of_step(task, seeds, size, step) for step in steps)
        return
    for some in (steps[at : at + STEPS_OF_DATA] for at in range(0, len(steps), STEPS_OF_DATA)):
        items = make_items(task, "train", seeds, some.start * size, len(some) * size)
        items = _with_targets(items, task.also_trained())
        if len(some) == 1:
            yield items
            continue
        for start in range(0, len(some) * size, size):
            yield items.part(slice(start, start + size))


def _with_targets(items: Items, places: Sequence[int]) -> Items:
    """Return training items with the tokens at these places as targets too."""
    if not places:
        return items
    tokens = items.tokens
    asked = tokens.shape[-1] - items.targets.shape[-1] + 1
    rows = torch.tensor([*(place - 1 for place in places), *range(asked - 1, tokens.shape[-1])])
    added = tokens[..., list(places)]
    counted = items.counted
    if counted is not None:
        counted = torch.cat([torch.ones_like(added, dtype=torch.bool), counted], -1)
    first = places[0] - 1
    return replace(
        items,
        targets=torch.cat([added, items.targets], -1),
        counted=counted,
        answer_rows=(rows - first).to(tokens.device).expand(*tokens.shape[:-1], -1).contiguous(),
        first=first,
        length=tokens.shape[-1] - first,
    )


def scored_items(
    task: Task, split: Split, samples: int, at_once: int, device: torch.device
) -> Iterator[tuple[Int[Tensor, "B"], Items]]:
    """Yield the first items [1, B, ...] of a split, with their places.

    Places are counted within the split. Texts come sorted by length, so that few tokens are
    padding.
    """
    if isinstance(task, TextTask):
        order = scored_order(task, split, samples)
        for places in order.split(at_once):
            yield places, chosen_items(task, split, places, device)
        return
    for first in range(0, samples, at_once):
        count = min(at_once, samples - first)
        items = _held_out(_Asked(task, split, first, count, device))
        yield torch.arange(first, first + count), items


def as_digit_task(task: Task) -> DigitTask:
    """Return the task if its items are generated digits.

    Raises `AdaptlabError` for any other.
    """
    if isinstance(task, DigitTask):
        return task
    raise AdaptlabError(f"Items are generated for digit tasks only, not for {task.name!r}.")


@dataclass(frozen=True)
class _Asked:
    """Items `first` to `first + count` of a split of a task, on a device."""

    task: Task
    split: Split
    first: int
    count: int
    device: torch.device


@lru_cache(maxsize=8)  # less than a megabyte each; every validation needs the same ones
def _held_out(key: _Asked) -> Items:
    seeds = torch.tensor([ITEM_SEED], device=key.device)
    return make_items(key.task, key.split, seeds, key.first, key.count)


def right_places(task: Task, split: Split, samples: int) -> Int[Tensor, "N"] | None:
    """Return the places of the right answers among all listed ones.

    None if the task does not choose from a list.
    """
    if not task.listed_answers():
        return None
    if isinstance(task, TextTask):
        return right_choices(task, split, samples)
    ((_, items),) = scored_items(task, split, samples, samples, torch.device("cpu"))
    return items.targets[0, :, 0]


def clusters_of(task: Task, split: Split, samples: int) -> tuple[int, ...]:
    """Return the groups of the first items of a split.

    They are numbered from 0 as they occur. Empty if items are independent.
    """
    groups = None
    if isinstance(task, TextTask):
        groups = groups_of_texts(task, split, samples)
    elif isinstance(task, ImageTask):
        groups = images_of(task, split, torch.device("cpu")).groups
    if groups is None:
        return ()
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(group, len(numbers)) for group in groups[:samples].tolist())
