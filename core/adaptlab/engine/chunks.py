"""The number of replicates that fit in memory at once."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.items import Items
from adaptlab.engine.memory import available_bytes, saved_bytes
from adaptlab.engine.passes import Pass
from adaptlab.errors import is_out_of_memory

USABLE = 0.8
"""Share of the free memory that a run may use; other processes need some as well."""
BACKWARD = 2.0
"""Peak memory of a step divided by what its forward pass keeps."""
BUFFERS = 5
"""Weights, both moments, the gradient and its parts, each as large as the trained tensors."""


def memory_limit(device: torch.device, given: int | None) -> int | None:
    """Return the bytes that a run may allocate; None for no limit."""
    if given is not None:
        return given
    free = available_bytes(device)
    return None if free is None else int(USABLE * free)


def most_at_once(
    one: Pass, items: Items, parts: int, limit: int | None, base: Mapping[str, Tensor], scalars: int
) -> int | None:
    """Return the number of replicates that fit in a pass; None for all.

    `one` is a pass of a single replicate. Its forward pass over the first part of a batch is
    measured, and every other replicate is assumed to need as much, although trials of a seed share
    some. `scalars` is the number of trained scalars of all replicates together.
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
