"""Frozen matrices in four bits, with magnitudes that are quantised again.

QLoRA (Dettmers, Pagnoni, Holtzman, Zettlemoyer, NeurIPS 2023), section 3. Each block of a matrix is
divided by its largest magnitude and rounded to the nearest of sixteen levels. Unlike there,
magnitudes are rounded to evenly spaced levels of eight bits, by groups around their mean, instead
of floats of eight bits.

A matrix is held as four tensors with a leading axis of one group, so that they pass through the
engine like weights. A product reads the matrix as floats, forward and again backward, where only
the gradient of the input is computed.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from adaptlab.engine.tensors import Float, Int, Shaped
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.quantised import BLOCK, MAGNITUDES, POINTER

LEVELS = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""The levels of NormalFloat, appendix E."""
STEPS = 127
"""Levels of a magnitude on either side of the mean."""


class Packed(NamedTuple):
    """A matrix [O, I] in four bits.

    `codes` are two levels per byte, the first in the upper half. `steps` and `scales` give the
    magnitudes of blocks, of the matrix row by row, as `offset` + `steps` · `scales` / 127.
    """

    codes: Int[Tensor, "1 O half"]
    steps: Int[Tensor, "1 blocks"]
    scales: Float[Tensor, "1 groups"]
    offset: Float[Tensor, "1"]

    @classmethod
    def of(cls, weight: Float[Tensor, "O I"]) -> Self:
        """Return a matrix in four bits; I is even."""
        flat = _padded(weight.detach().float().flatten(), BLOCK).view(-1, BLOCK)
        steps, scales, offset = _magnitudes(flat.abs().amax(1))
        magnitudes = _restored(steps, scales, offset)
        levels = torch.tensor(LEVELS, device=weight.device)
        midpoints = (levels[1:] + levels[:-1]) / 2
        # A magnitude that is rounded to 0 or below belongs to a block of numbers near 0.
        divisors = torch.where(magnitudes > 0, magnitudes, torch.ones_like(magnitudes))
        scaled = flat / divisors.unsqueeze(1)
        nearest = torch.bucketize(scaled, midpoints, out_int32=True).to(torch.uint8)
        pairs = nearest.flatten()[: weight.numel()].view(len(weight), -1, 2)
        codes = (pairs[..., 0] << 4) | pairs[..., 1]
        return cls(codes.unsqueeze(0), steps.unsqueeze(0), scales.unsqueeze(0), offset.view(1))

    @classmethod
    def at(cls, weights: Mapping[str, Tensor], name: str) -> Self:
        """Return the matrix called `name` among base weights."""
        return cls._make(weights[f"{name}.{part}"] for part in cls._fields)

    def named(self, name: str) -> dict[str, Tensor]:
        """Return the parts by the names that they have among base weights."""
        return {f"{name}.{part}": tensor for part, tensor in self._asdict().items()}

    def restored(self, dtype: torch.dtype) -> Float[Tensor, "O I"]:
        """Return the matrix as floats."""
        codes = self.codes[0]
        table = _pairs(codes.device)
        levels = table.index_select(0, codes.flatten().int()).flatten()
        magnitudes = _restored(self.steps[0], self.scales[0], self.offset)
        blocks = _padded(levels, BLOCK).view(-1, BLOCK) * magnitudes.unsqueeze(1)
        return blocks.flatten()[: levels.numel()].view(len(codes), -1).to(dtype)


def linear(x: Float[Tensor, "A *N I"], packed: Packed) -> Float[Tensor, "A *N O"]:
    """Multiply x by a frozen matrix."""
    product: Tensor = _Product.apply(x, *packed)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    return product


class _Product(torch.autograd.Function):
    """A product with a frozen matrix, of which only its four bits are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parts: Tensor) -> Tensor:  # torch does not type contexts
        ctx.save_for_backward(*parts)
        return functional.linear(x, Packed(*parts).restored(x.dtype))

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        (incoming,) = grad_outputs
        return (
            incoming @ Packed(*ctx.saved_tensors).restored(incoming.dtype),
            None,
            None,
            None,
            None,
        )


def quantised(
    tensors: Iterable[tuple[str, Tensor]], names: frozenset[str]
) -> Iterator[tuple[str, Shaped[Tensor, "1 *N"]]]:
    """Yield weights with a group axis, those called `names` in four bits.

    They are taken one by one, so that no second one is held as floats.
    """
    for name, tensor in tensors:
        if name in names:
            yield from Packed.of(tensor).named(name).items()
        else:
            yield name, tensor.unsqueeze(0)


def in_dtype(weights: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return base weights in another dtype; four-bit ones stay as they are."""
    parts = tuple(f".weight.{part}" for part in Packed._fields)
    return {
        name: tensor if name.endswith(parts) else tensor.to(dtype)
        for name, tensor in weights.items()
    }


def check_device(device: torch.device) -> None:
    """Check that jobs with a four-bit base run on a device.

    Raises:
        InvalidSpec: it is a CPU, where every product would take several times as long.
    """
    if device.type == "cuda":
        return
    detail = (
        "The base weights nf4 are not available on a CPU, and this worker has no GPU. Submit the "
        "job to a queue of workers with an NVIDIA GPU, or use `base_weights: stored`."
    )
    raise InvalidSpec(Problem(POINTER, "no_gpu", detail, allowed=("stored",)))


def _magnitudes(largest: Float[Tensor, "B"]) -> tuple[Tensor, Tensor, Tensor]:
    """Return magnitudes as steps [B], scales [B / 256] and their mean."""
    offset = largest.mean()
    groups = _padded(largest - offset, MAGNITUDES).view(-1, MAGNITUDES)
    scales = groups.abs().amax(1)
    divisors = torch.where(scales > 0, scales, torch.ones_like(scales)).unsqueeze(1)
    steps = (groups / divisors * STEPS).round().to(torch.int8)
    return steps.flatten()[: len(largest)], scales, offset


def _restored(steps: Tensor, scales: Tensor, offset: Tensor) -> Float[Tensor, "B"]:
    of_blocks = scales.repeat_interleave(MAGNITUDES)[: len(steps)]
    return offset + steps * (of_blocks / STEPS)


def _padded(flat: Float[Tensor, "N"], size: int) -> Float[Tensor, "N2"]:
    """Return numbers with zeros up to a multiple of `size`."""
    return functional.pad(flat, (0, -len(flat) % size))


@lru_cache(maxsize=4)  # a copy to a GPU would wait for it, and cannot be recorded in a graph
def _pairs(device: torch.device) -> Float[Tensor, "256 2"]:
    """Return the two levels of every byte."""
    levels = torch.tensor(LEVELS)
    first, second = torch.arange(256) // 16, torch.arange(256) % 16
    return torch.stack([levels[first], levels[second]], 1).to(device)
