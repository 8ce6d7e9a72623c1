"""Activations that torch computes slowly on a CPU."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from adaptlab.engine.compiled import kernels_for

INNER = math.sqrt(2 / math.pi)
CUBIC = 0.044715
AT_ONCE = 2**16
"""Numbers that each thread takes at a time: its buffers fit in a core's second-level cache."""


def gelu(x: Tensor) -> Tensor:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³))) of x [...] (Hendrycks, Gimpel 2016).

    It is torch's own except on a CPU: compiled where kernels are, which takes a third of the
    time, and otherwise in bfloat16, where value and gradient take torch half as long again as they
    take here. In float32 torch's own operations have nothing to gain.
    """
    if kernels_for(x) is not None:
        compiled: Tensor = _Compiled.apply(x)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
        return compiled
    if x.is_cuda or x.dtype != torch.bfloat16:
        return functional.gelu(x, approximate="tanh")
    keeps_slope = x.requires_grad and torch.is_grad_enabled()
    found: Tensor = _Gelu.apply(x, keeps_slope)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    return found


class _Compiled(torch.autograd.Function):
    """One pass each way; the slope is worked out again rather than kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # torch does not type contexts
        x, kernels = x.contiguous(), kernels_for(x)
        assert kernels is not None
        ctx.save_for_backward(x)
        ctx.kernels = kernels
        return kernels.gelu(x)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> Tensor:
        (x,) = ctx.saved_tensors
        found: Tensor = ctx.kernels.gelu_backward(x, grad_outputs[0].contiguous())
        return found


class _Gelu(torch.autograd.Function):
    """Works out the slope along with the value, and keeps it instead of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, keeps_slope: bool) -> Tensor:  # torch does not type contexts
        x = x.contiguous()
        value = torch.empty_like(x)
        slope = torch.empty_like(x) if keeps_slope else None
        _fill(x.view(-1), value.view(-1), None if slope is None else slope.view(-1))
        if slope is not None:
            ctx.save_for_backward(slope)
        return value

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grad_outputs[0] * slope, None


def _fill(x: Tensor, value: Tensor, slope: Tensor | None) -> None:
    """Write the value and, where wanted, the slope at x [N], block by block in float32."""
    size = AT_ONCE * torch.get_num_threads()
    buffers = torch.empty(4, min(size, len(x)))
    half, inner = torch.tensor(0.5), torch.tensor(INNER)
    values = value.split(size)
    slopes = [None] * len(values) if slope is None else slope.split(size)
    for given, out, out_slope in zip(x.split(size), values, slopes, strict=True):
        z, square, t, spare = buffers[:, : len(given)].unbind()
        torch.mul(z.copy_(given), z, out=square)
        torch.addcmul(z, square, z, value=CUBIC, out=t).mul_(inner).tanh_()
        if out_slope is not None:  # half of 1 + t + √(2/π) (x + 3 · 0.044715 x³) (1 - t²)
            torch.addcmul(z, square, z, value=3 * CUBIC, out=spare)
            torch.ops.aten.tanh_backward.grad_input(spare, t, grad_input=spare)
            torch.add(t, spare, alpha=INNER, out=spare)
            out_slope.copy_(torch.add(half, spare, alpha=0.5, out=spare))
        z.mul_(half)
        out.copy_(torch.addcmul(z, z, t, out=spare))
