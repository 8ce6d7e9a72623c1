"""Dropout by one kernel forward and one backward.

Without it both take nine, and the mask is stored in between. The kernel draws it in either pass. On
a GPU it is written in CUDA, on a CPU in C.
"""

import ctypes
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from adaptlab.engine.kernels.compiled import Kernels, kernels_for
from adaptlab.engine.kernels.cuda_kernels import CudaKernel, cuda_kernels
from adaptlab.engine.kernels.dropout_masks import Masks
from adaptlab.engine.kernels.fused_draws import draws_are_fused
from adaptlab.engine.tensors import Float

SOURCE = Path(__file__).with_name("dropout.cu")
NAMES = {
    torch.float32: "drop_float32",
    torch.float64: "drop_float64",
    torch.bfloat16: "drop_bfloat16",
}
THREADS = 256
VALUES_PER_THREAD = 4
"""So that drawing the four counters that a thread's values share costs little."""
MOST_BLOCKS = 2**16 - 1
"""Parts of an item; for more, threads compute more values."""
_Strides = ctypes.c_longlong * 5


class _Dropout(ctypes.Structure):
    """As in `dropout.cu` and `kernels.c`.

    `scale` is what the kernel of CUDA multiplies by, and that of C divides by.
    """

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "y", "step", "seeds")),
        *((name, ctypes.c_ulonglong) for name in ("stream", "below")),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_longlong) for name in ("first_item", "first_row", "row_step", "length")),
        *((name, _Strides) for name in ("source", "target")),
        *((name, ctypes.c_uint) for name in ("items", "heads", "rows", "columns")),
    )


def fused_dropout(
    x: Float[Tensor, "R B *H Q C"], masks: Masks
) -> Float[Tensor, "R B *H Q C"] | None:
    """Return x after dropout, equal bit for bit to `masks.applied(x)`.

    None if there is no kernel for it: for an unusual shape, without a compiler, or if the kernel of
    a GPU was seen to compute something else.
    """
    kernel = _kernels(x.device).of.get(x.dtype) or kernels_for(x)
    if kernel is None or not _is_usual(x, masks):
        return None
    fused: Tensor = _Dropped.apply(x, masks, kernel)  # pyright: ignore[reportAssignmentType]
    return fused


class _Dropped(torch.autograd.Function):
    """Dropout by a kernel; the backward pass draws the mask again."""

    @staticmethod
    def forward(  # torch's context is of any type
        ctx: Any, x: Tensor, masks: Masks, kernel: CudaKernel | Kernels
    ) -> Tensor:
        ctx.masks, ctx.kernel = masks, kernel
        return _computed(kernel, x, masks)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor, None, None]:
        return _computed(ctx.kernel, grad_outputs[0], ctx.masks), None, None


def _computed(kernel: CudaKernel | Kernels, x: Tensor, masks: Masks) -> Tensor:
    y = torch.empty_like(x)
    *_, rows, columns = x.shape
    first_row, _, row_step = masks.rows.indices(masks.length)
    divides = isinstance(kernel, Kernels)
    heads = x.shape[2] if x.dim() == 5 else 1
    argument = _Dropout(
        x=x.data_ptr(),
        y=y.data_ptr(),
        step=masks.step.data_ptr(),
        seeds=masks.seeds.data_ptr(),
        stream=masks.stream,
        below=masks.below,
        scale=1 - masks.rate if divides else _factor(masks.rate, x.dtype, x.device),
        first_item=masks.first_item,
        first_row=first_row,
        row_step=row_step,
        length=masks.length,
        source=_strides(x),
        target=_strides(y),
        items=x.shape[1],
        heads=heads,
        rows=rows,
        columns=columns,
    )
    if isinstance(kernel, Kernels):
        kernel.dropout(argument, len(x))
        return y
    blocks = -(-heads * rows * columns // (THREADS * VALUES_PER_THREAD))
    kernel((len(x) * x.shape[1], min(blocks, MOST_BLOCKS)), THREADS, argument)
    return y


def _strides(x: Tensor) -> ctypes.Array[ctypes.c_longlong]:
    replicate, item, *heads, row, column = x.stride()
    return _Strides(replicate, item, *(heads or [0]), row, column)


@lru_cache(maxsize=1024)  # reading it waits for the device, which a recorded step must not
def _factor(rate: float, dtype: torch.dtype, device: torch.device) -> float:
    """Return what torch multiplies by on a device when it divides by 1 − rate.

    A GPU multiplies by the reciprocal, which is rounded differently by versions of torch.
    """
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return float(torch.ones((), dtype=wide, device=device) / (1 - rate))


def _is_usual(x: Tensor, masks: Masks) -> bool:
    """Return True if the kernel computes shapes and counters like these."""
    counters = (masks.step, masks.seeds)
    return (
        x.dim() in (4, 5)
        and x.numel() > 0
        and math.prod(x.shape[2:]) < 2**31
        and len(x) * x.shape[1] < 2**31
        and masks.seeds.shape == x.shape[:1]
        and len(range(masks.length)[masks.rows]) == x.shape[-2]
        and masks.seeds.is_contiguous()
        and all(each.dtype == torch.int64 and each.device == x.device for each in counters)
    )


def dropout_fault(device: torch.device) -> str | None:
    """Return why dropout takes many kernels on a GPU; None if it does not."""
    return _kernels(device).fault


@dataclass(frozen=True)
class _Kernels:
    """The kernels of a device by dtype, and why some are missing."""

    of: Mapping[torch.dtype, CudaKernel] = field(default_factory=dict[torch.dtype, CudaKernel])
    fault: str | None = None


@cache
def _kernels(device: torch.device) -> _Kernels:
    """Return the kernels that compute what torch computes on a device."""
    if not draws_are_fused(device):  # the draws' kernel loads the compiler
        return _Kernels(fault="torch compiles no kernels there")
    try:
        kernels = cuda_kernels(SOURCE.read_text(), NAMES.values(), device)
        found = {dtype: kernels[name] for dtype, name in NAMES.items()}
        right = {dtype: it for dtype, it in found.items() if agrees(it, dtype, device)}
    except (RuntimeError, OSError, AttributeError, ctypes.ArgumentError) as error:
        return _Kernels(fault=f"{type(error).__name__}: {error}")  # or another build of torch
    wrong = ", ".join(str(dtype) for dtype in found if dtype not in right)
    return _Kernels(right, f"it differs from torch in {wrong}" if wrong else None)


@torch.no_grad()
def agrees(kernel: CudaKernel, dtype: torch.dtype, device: torch.device) -> bool:
    """Return True if a kernel computes in small cases what torch does."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    return all(
        torch.equal(_computed(kernel, x, masks).view(bits), masks.applied(x).view(bits))
        for x, masks in _cases(dtype, device)
    )


def _cases(dtype: torch.dtype, device: torch.device) -> Iterator[tuple[Tensor, Masks]]:
    """Yield values of several layouts, some rows each, with masks."""
    seeds = torch.tensor([-3, 2**62 + 5], device=device)
    step = torch.tensor(2**40 + 1, device=device)
    x = (torch.arange(480, device=device).double() * 0.37).sin().to(dtype).view(2, 5, 2, 4, 6)
    for rate, rows, length, values in (
        (0.1, slice(1, 5), 7, x),
        (0.9, slice(None, None, 2), 8, x.view(2, 5, 4, 2, 6).transpose(2, 3)),
        (0.5, slice(None), 4, x[..., ::2]),
        (0.3, slice(-8, None), 9, x.flatten(2, 3)[:, :1].expand(-1, 3, -1, -1)),
    ):
        yield values, Masks(rate, 2**61 + 9, step, seeds, 2**33, length, rows)
