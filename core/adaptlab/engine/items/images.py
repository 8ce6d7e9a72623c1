"""Items that are images, from lists of labelled ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from adaptlab.engine.items.digits import hash_of, is_in_split, listed_places
from adaptlab.engine.items.items import Items
from adaptlab.engine.tensors import Int, UInt8
from adaptlab.plugins.image_task import ImageTask
from adaptlab.plugins.registry import Registry
from adaptlab.plugins.splits import Split


@dataclass(frozen=True)
class Labelled:
    """The images of a split, in the order in which they are scored.

    Attributes:
        levels: the levels of the pixels, at one byte each.
        classes: the places of the classes.
        lines: the records that the images come from, counted from 1; None without records.
        groups: the number of each image's group, None if images are independent.
    """

    levels: UInt8[Tensor, "W T"]
    classes: Int[Tensor, "W"]
    lines: Int[Tensor, "W"] | None = None
    groups: Int[Tensor, "W"] | None = None


# `Any`, because each task has its own class.
ENGINE_IMAGES: Registry[Callable[[Any, Split], Labelled]] = Registry(
    "engine images", "adaptlab.engine.tasks"
)
"""From a task to the images of a split; only tasks with images have one."""


def image_items(
    task: ImageTask, split: Split, seeds: Int[Tensor, "S"], first: int, count: int
) -> Items:
    """Return items `first` to `first + count` of a split, for every seed.

    Training items are drawn. The others go through the split in the order of a hash.
    """
    images = images_of(task, split, seeds.device)
    index = torch.arange(first, first + count, device=seeds.device).unsqueeze(0)
    places = listed_places(split, seeds.unsqueeze(1), index, len(images.classes))
    tokens = images.levels[places].long()
    return Items(
        tokens=tokens,
        targets=images.classes[places].unsqueeze(-1),
        answer_rows=torch.zeros_like(places).unsqueeze(-1),
        length=1,
        read=torch.full_like(places, tokens.shape[-1]),
    )


def images_of(task: ImageTask, split: Split, device: torch.device) -> Labelled:
    """Return the images of a split on a device."""
    return _listed(task, split, device)  # pyright: ignore[reportArgumentType] - frozen, and so hashable


@lru_cache(maxsize=8)
def _listed(task: ImageTask, split: Split, device: torch.device) -> Labelled:
    images = ENGINE_IMAGES.get(task.name)(task, split)
    return replace(images, levels=images.levels.to(device), classes=images.classes.to(device))


def in_split(images: Labelled, split: Split) -> Labelled:
    """Return those that a hash of their pixels puts into a split."""
    levels = images.levels.long()
    order = hash_of(levels).argsort()
    kept = order[is_in_split(levels[order], split)]
    return Labelled(images.levels[kept], images.classes[kept])
