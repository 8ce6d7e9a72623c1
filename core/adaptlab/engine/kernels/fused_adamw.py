"""A step of AdamW by a kernel, on a CPU in float32.

It reads the parts of a gradient where the backward pass has left them, sums their squares in one
pass over memory, and clips and moves in a second.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate

import torch
from torch import Tensor

from adaptlab.engine.kernels.compiled import kernels_for
from adaptlab.engine.tensors import Float

SCALARS_A_BLOCK = 2**14
"""Scalars of a replicate that one thread moves, and whose squares are summed."""


@dataclass(frozen=True)
class StepTensors:
    """What a step moves.

    `weights`, `mean` and `square` are changed in place; `decays` is 1 where weight decay applies.
    """

    weights: Float[Tensor, "R N"]
    mean: Float[Tensor, "R N"]
    square: Float[Tensor, "R N"]
    decays: Float[Tensor, "N"]
    rates: Float[Tensor, "R"]
    weight_decays: Float[Tensor, "R"]


@dataclass(frozen=True)
class Constants:
    """The constants of a step.

    `clip` is the largest norm of a gradient. Mean and root mean square are divided by their
    corrections, because both started at 0.
    """

    clip: float
    betas: tuple[float, float]
    corrections: tuple[float, float]
    epsilon: float


class _Part(ctypes.Structure):
    """As in `adamw.c`."""

    _fields_ = (
        ("gradient", ctypes.c_void_p), ("first", ctypes.c_int64), ("count", ctypes.c_int64)
    )  # fmt: skip


class _Argument(ctypes.Structure):
    """As in `adamw.c`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weights", "mean", "square", "parts")),
        *((name, ctypes.c_void_p) for name in ("decays", "rates", "weight_decays", "sums")),
        *((name, ctypes.c_double) for name in ("clip", "beta_mean", "beta_square")),
        *((name, ctypes.c_double) for name in ("mean_correction", "root_correction", "epsilon")),
        *((name, ctypes.c_int64) for name in ("replicates", "scalars", "blocks")),
    )


def has_kernel(weights: Tensor) -> bool:
    """Return True if `fused_step` moves these weights."""
    return weights.dtype == torch.float32 and kernels_for(weights) is not None


def fused_step(
    moved: StepTensors, gradient: Sequence[Float[Tensor, "R ..."]], constants: Constants
) -> None:
    """Move the weights by their gradient, given in parts in their order."""
    (replicates, scalars), kernels = moved.weights.shape, kernels_for(moved.weights)
    assert kernels is not None
    if not scalars:
        return
    read = [part.contiguous() for part in gradient]  # kept until the kernel ends
    counts = [part[0].numel() for part in read]
    places = zip(map(Tensor.data_ptr, read), accumulate(counts, initial=0), counts, strict=False)
    parts = (_Part * len(read))(*places)
    blocks = -(-scalars // SCALARS_A_BLOCK)
    sums = moved.weights.new_empty(replicates, blocks)
    argument = _Argument(
        **{each.name: getattr(moved, each.name).data_ptr() for each in fields(moved)},
        parts=ctypes.addressof(parts),
        sums=sums.data_ptr(),
        clip=constants.clip,
        beta_mean=constants.betas[0],
        beta_square=constants.betas[1],
        mean_correction=constants.corrections[0],
        root_correction=constants.corrections[1],
        epsilon=constants.epsilon,
        replicates=replicates,
        scalars=scalars,
        blocks=blocks,
    )
    kernels.adamw(argument)
