"""Matrix products of layers by kernels, on a CPU in float32.

An MLP is one kernel each way. torch writes its hidden features, four times as wide as the model, to
memory and reads them again for every operation; the kernel computes blocks of rows whose hidden
features stay in a core's caches, and keeps only what the activation is computed of.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from adaptlab.engine.compiled import Kernels, kernels_for
from adaptlab.engine.tensors import Float

ROWS_A_PART = 1024
"""Rows of a group that one thread computes, and whose gradients of weights are summed."""
LEAST_ROWS = 32
"""Rows of a group below which arranging its weights takes more time than that saves."""
LEAST_OUTPUTS = 8
"""Outputs below which most of what the kernels compute at once is not needed."""
LARGEST, LARGEST_TRAINED = 2**22, 2**19
"""Scalars of a weight above which torch is as fast: one that is frozen, and one that is not."""


class _Linear(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "weight", "bias", "y")),
        *((name, ctypes.c_void_p) for name in ("dy", "dx", "dweight", "dbias")),
        *((name, ctypes.c_int64) for name in ("groups", "rows", "inputs", "outputs", "parts")),
    )


class _Mlp(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "up", "up_bias", "down", "down_bias")),
        *((name, ctypes.c_void_p) for name in ("before", "y", "dy", "dx")),
        *((name, ctypes.c_void_p) for name in ("dup", "dup_bias", "ddown", "ddown_bias")),
        *((name, ctypes.c_int64) for name in ("groups", "rows", "width", "hidden", "parts")),
    )


def fused_linear(
    x: Float[Tensor, "R *N I"], weight: Float[Tensor, "G O I"], bias: Float[Tensor, "G O"] | None
) -> Float[Tensor, "R *N O"] | None:
    """Return W x + b; None where there is no kernel for it."""
    kernels = _kernels(x, weight) if bias is None else _kernels(x, weight, bias)
    if kernels is None:
        return None
    product: Tensor = _LinearProduct.apply(x, weight, bias, kernels)  # pyright: ignore[reportAssignmentType]
    return product


def fused_mlp(
    x: Float[Tensor, "R *N C"],
    up: Float[Tensor, "G H C"] | None,
    up_bias: Float[Tensor, "G2 H"] | None,
    down: Float[Tensor, "G3 C H"] | None,
    down_bias: Float[Tensor, "G4 C"] | None,
) -> Float[Tensor, "R *N C"] | None:
    """Return W_down gelu(W_up x + b_up) + b_down, GELU in its tanh form.

    None where there is no kernel for it, if one of the weights is None, or if one has another
    number of groups.
    """
    if up is None or up_bias is None or down is None or down_bias is None:
        return None
    weights = (up, up_bias, down, down_bias)
    kernels = _kernels(x, *weights)
    if kernels is None:
        return None
    fused: Tensor = _MlpProduct.apply(x, *weights, kernels)  # pyright: ignore[reportAssignmentType]
    return fused


def _kernels(x: Tensor, *weights: Tensor) -> Kernels | None:
    """Return the kernels for these weights; None if torch computes."""
    groups, outputs, inputs = weights[0].shape
    if x.dtype != torch.float32 or len(x) % groups or any(len(w) != groups for w in weights):
        return None
    trained = torch.is_grad_enabled() and any(weight.requires_grad for weight in weights)
    if outputs * inputs > (LARGEST_TRAINED if trained else LARGEST):
        return None
    if outputs < LEAST_OUTPUTS or x.numel() < LEAST_ROWS * groups * inputs:
        return None
    return kernels_for(x, *weights)


class _LinearProduct(torch.autograd.Function):
    """A linear layer by a kernel."""

    @staticmethod
    def forward(  # torch's context is of any type
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, kernels: Kernels
    ) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        bias = bias if bias is None else bias.contiguous()
        y = x.new_empty(*x.shape[:-1], weight.shape[1])
        kernels.product("linear", _linear(x, weight, bias=bias, y=y), back=False)
        ctx.save_for_backward(x, weight)
        ctx.kernels = kernels
        return y

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        parts = _parts(x, weight)
        dx = torch.empty_like(x) if of_x else None
        dweight = weight.new_empty(len(weight), parts, *weight.shape[1:]) if of_weight else None
        dbias = weight.new_empty(len(weight), parts, weight.shape[1]) if of_bias else None
        incoming = grad_outputs[0].contiguous()
        argument = _linear(x, weight, dy=incoming, dx=dx, dweight=dweight, dbias=dbias)
        ctx.kernels.product("linear", argument, back=True)
        return dx, _summed(dweight), _summed(dbias), None


class _MlpProduct(torch.autograd.Function):
    """The MLP by a kernel; the backward pass recomputes the hidden features."""

    @staticmethod
    def forward(  # torch's context is of any type
        ctx: Any, x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor,
        kernels: Kernels,
    ) -> Tensor:  # fmt: skip
        given = [each.contiguous() for each in (x, up, up_bias, down, down_bias)]
        y, hidden = torch.empty_like(given[0]), up.shape[1]
        before = x.new_empty(*x.shape[:-1], hidden) if any(ctx.needs_input_grad) else None
        kernels.product("mlp", _mlp(given, before=before, y=y), back=False)
        if before is not None:
            ctx.save_for_backward(before, *given)
            ctx.kernels = kernels
        return y

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        before, *given = ctx.saved_tensors
        incoming, parts = grad_outputs[0].contiguous(), _parts(given[0], given[1])
        of_x, *of_weights = ctx.needs_input_grad[:5]
        names = ("dup", "dup_bias", "ddown", "ddown_bias")
        sums = {
            name: weight.new_empty(len(weight), parts, *weight.shape[1:]) if needed else None
            for name, weight, needed in zip(names, given[1:], of_weights, strict=True)
        }
        dx = torch.empty_like(given[0]) if of_x else None
        ctx.kernels.product(
            "mlp", _mlp(given, before=before, dy=incoming, dx=dx, **sums), back=True
        )
        return dx, *map(_summed, sums.values()), None


def _linear(x: Tensor, weight: Tensor, **others: Tensor | None) -> _Linear:
    """Return what the kernel reads of x, a weight and other arrays."""
    groups, outputs, inputs = weight.shape
    rows = x.numel() // (groups * inputs)
    sizes = {"groups": groups, "rows": rows, "inputs": inputs, "outputs": outputs}
    return _Linear(**_at(x=x, weight=weight, **others), **sizes, parts=_parts(x, weight))


def _mlp(given: Sequence[Tensor], **others: Tensor | None) -> _Mlp:
    """Return what the kernel reads of x, the weights and other arrays."""
    x, up, up_bias, down, down_bias = given
    groups, hidden, width = up.shape
    rows = x.numel() // (groups * width)
    sizes = {"groups": groups, "rows": rows, "width": width, "hidden": hidden}
    arrays = _at(x=x, up=up, up_bias=up_bias, down=down, down_bias=down_bias, **others)
    return _Mlp(**arrays, **sizes, parts=_parts(x, up))


def _at(**arrays: Tensor | None) -> dict[str, int | None]:
    return {name: None if each is None else each.data_ptr() for name, each in arrays.items()}


def _parts(x: Tensor, weight: Tensor) -> int:
    """Return into how many parts the rows of a group are divided."""
    return max(1, x.numel() // (len(weight) * weight.shape[-1] * ROWS_A_PART))


def _summed(parts: Tensor | None) -> Tensor | None:
    """Return the sum over the parts [G, P, ...] of a gradient."""
    return None if parts is None else parts.squeeze(1) if parts.shape[1] == 1 else parts.sum(1)
