"""The replicates and the items of a batch that fit in memory at once."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.kernels.memory import available_bytes, saved_bytes
from adaptlab.engine.training.passes import ReplicatePass
from adaptlab.errors import is_out_of_memory
from adaptlab.specs.memory import USABLE

BACKWARD = 2.0
"""Peak memory of a step divided by what its forward pass keeps."""
FEWEST_TOKENS = 64
"""Tokens of a part below which computing blocks again is faster than smaller parts.

All weights are read for every part, whatever its size. On a CPU and SmolLM2-135M, parts of 62
tokens took 1.3 to 1.6 times as long as the whole batch of 248, parts of 31 twice as long, and
computing blocks again 1.4 to 1.8 times.
"""
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

    A pass has at most `most` replicates, and takes a batch in `parts` equal parts. With
    `recomputes`, blocks are computed again in the backward pass.
    """

    most: int
    parts: int
    recomputes: bool = False


@dataclass(frozen=True, slots=True)
class StepDivision:
    """The division of a step that was trained.

    Attributes:
        passes: the most passes that the replicates took.
        parts: the most equal parts of a batch in a pass.
        recomputes: whether blocks were computed again in the backward pass.
    """

    passes: int = 1
    parts: int = 1
    recomputes: bool = False


def fitting(
    one: ReplicatePass,
    items: Items,
    parts: int,
    limit: int | None,
    base: Mapping[str, Tensor],
    scalars: int,
) -> Division | None:
    """Return the largest division that fits in memory.

    None if there is no limit.

    `one` is a pass of a single replicate. Its forward pass over the first of `parts` of a batch is
    measured, and every other replicate is assumed to need as much, although trials of a seed share
    some. If not even one replicate fits, see `smaller`. `scalars` is the number of trained scalars
    of all replicates together.
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
    shared = (one.trainables.decays, *base.values())
    fixed = BUFFERS * scalars * weights.element_size() + sum(map(_size, shared))
    room = (limit - fixed) / BACKWARD
    if each <= room:
        return Division(max(1, int(room / max(1, each))), parts)
    layers = one.model.plan.shape.layers
    again = saved_bytes(lambda: one.recomputing().losses(first, 0), held) + each // layers
    return smaller(each * parts, again * parts, room, (size, items.tokens.shape[2]), parts)


def smaller(whole: int, again: int, room: float, batch: tuple[int, int], parts: int) -> Division:
    """Return how one replicate fits whose batch does not.

    The batch is divided into as few more `parts` as needed. If these have fewer than
    `FEWEST_TOKENS` tokens, or if not even one item fits, blocks are computed again in the backward
    pass where that is enough for larger parts.

    Args:
        whole: bytes that are kept for the whole batch.
        again: likewise if blocks are computed again: their inputs, and one block.
        room: bytes that may be kept.
        batch: the items per replicate, and the tokens of each.
        parts: the parts that it is divided into already.
    """
    size, length = batch

    def enough(kept: int) -> int | None:
        fit = (p for p in range(parts, size + 1) if size % p == 0 and kept / p <= room)
        return next(fit, None)

    split, recomputed = enough(whole), enough(again)
    if split is not None and size // split * length >= FEWEST_TOKENS:
        return Division(1, split)
    if recomputed is not None and (split is None or recomputed < split):
        return Division(1, recomputed, recomputes=True)
    if split is not None:
        return Division(1, split)
    return Division(1, size, recomputes=again < whole)


def more_parts(parts: int, size: int) -> int:
    """Return the next larger number of equal parts of a batch.

    A batch has at most as many parts as items.
    """
    return next((p for p in range(parts + 1, size) if size % p == 0), size)


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
