"""Items that are images, from lists of labelled ones."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from adaptlab.engine.digits import hash_of, is_in_split, listed_places
from adaptlab.engine.items import Items
from adaptlab.engine.tensors import Int
from adaptlab.plugins.image_task import ImageTask
from adaptlab.plugins.registry import Registry
from adaptlab.plugins.splits import Split


@dataclass(frozen=True)
class Labelled:
    """The levels of the pixels of images, and the places of their classes."""

    levels: Int[Tensor, "W T"]
    classes: Int[Tensor, "W"]


# `Any`, because each task has its own class.
ENGINE_IMAGES: Registry[Callable[[Any], Labelled]] = Registry(
    "engine images", "adaptlab.engine.tasks"
)
"""From a task to all its images; only tasks with images have one."""


def image_items(
    task: ImageTask, split: Split, seeds: Int[Tensor, "S"], first: int, count: int
) -> Items:
    """Return items `first` to `first + count` of a split, for every seed.

    Training items are drawn. The others go through the split in the order of a hash.
    """
    images = _of_split(task, split, seeds.device)
    index = torch.arange(first, first + count, device=seeds.device).unsqueeze(0)
    places = listed_places(split, seeds.unsqueeze(1), index, len(images.classes))
    tokens = images.levels[places]
    return Items(
        tokens=tokens,
        targets=images.classes[places].unsqueeze(-1),
        answer_rows=torch.zeros_like(places).unsqueeze(-1),
        length=1,
        read=torch.full_like(places, tokens.shape[-1]),
    )


def _of_split(task: ImageTask, split: Split, device: torch.device) -> Labelled:
    return _listed(task, split, device)  # pyright: ignore[reportArgumentType] - frozen, and so hashable


@lru_cache(maxsize=16)  # about a megabyte each
def _listed(task: ImageTask, split: Split, device: torch.device) -> Labelled:
    images = ENGINE_IMAGES.get(task.name)(task)
    order = hash_of(images.levels).argsort()
    kept = order[is_in_split(images.levels[order], split)]
    return Labelled(images.levels[kept].to(device), images.classes[kept].to(device))
