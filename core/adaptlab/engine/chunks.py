"""The replicates and the items of a batch that fit in memory at once."""

from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Division:
    """A limit on the replicates of a pass, and the parts of a batch.

    A pass has at most `most` replicates, and takes a batch in `parts` equal parts.
    """

    most: int
    parts: int


def fitting(
    one: Pass, items: Items, parts: int, limit: int | None, base: Mapping[str, Tensor], scalars: int
) -> Division | None:
    """Return the largest division that fits in memory.

    None if there is no limit.

    `one` is a pass of a single replicate. Its forward pass over the first of `parts` of a batch is
    measured, and every other replicate is assumed to need as much, although trials of a seed share
    some. If not even one replicate fits, the batch is divided into more parts. `scalars` is the
    number of trained scalars of all replicates together.
    """
    if limit is None:
        return None
    size = items.tokens.shape[1]
    first = items.part(slice(size // parts))
    held = (one.trainables.flat, *base.values())
    try:
        each = saved_bytes(lambda: one.losses(first, 0), held)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return Division(1, more_parts(parts, size))
    weights = one.trainables.flat
    fixed = BUFFERS * scalars * weights.element_size() + sum(_size(t) for t in base.values())
    room = (limit - fixed) / BACKWARD
    if each <= room or parts == size:
        return Division(max(1, int(room / max(1, each))), parts)
    enough = (p for p in range(parts, size) if size % p == 0 and each * parts / p <= room)
    return Division(1, next(enough, size))


def more_parts(parts: int, size: int) -> int:
    """Return the next larger number of equal parts of a batch.

    A batch has at most as many parts as items.
    """
    return next((p for p in range(parts + 1, size) if size % p == 0), size)


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
