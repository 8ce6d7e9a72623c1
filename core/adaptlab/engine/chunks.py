"""How many replicates fit in memory at once."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.items import Items
from adaptlab.engine.memory import available_bytes, saved_bytes
from adaptlab.engine.passes import Pass
from adaptlab.errors import is_out_of_memory

USABLE = 0.8
"""Of the memory that is free when a run begins; others on the machine need some as well."""
BACKWARD = 2.0
"""What a step needs at its peak, in what its forward pass keeps: the backward pass makes more."""
BUFFERS = 5
"""Weights, both moments, the gradient and its parts, each as large as the trained tensors."""


def memory_limit(device: torch.device, given: int | None) -> int | None:
    """What a run may hold besides what the process held before it, in bytes; None: no limit."""
    if given is not None:
        return given
    free = available_bytes(device)
    return None if free is None else int(USABLE * free)


def most_at_once(
    one: Pass, items: Items, parts: int, limit: int | None, base: Mapping[str, Tensor], scalars: int
) -> int | None:
    """How many replicates a pass may have within the limit; None for as many as there are.

    `one` is a pass of a single replicate, of whose forward pass over the first part of a batch
    every other is taken to need as much; what trials of a seed share is counted for each of them.
    `scalars` is the number of trained scalars of all replicates together.
    """
    if limit is None:
        return None
    size = items.tokens.shape[1] // parts
    first = items.part(slice(size))
    held = (one.trainables.flat, *base.values())
    try:
        each = saved_bytes(lambda: one.losses(first, 0), held)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return 1
    weights = one.trainables.flat
    fixed = BUFFERS * scalars * weights.element_size() + sum(_size(t) for t in base.values())
    return max(1, int((limit - fixed) / (BACKWARD * max(1, each))))


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
