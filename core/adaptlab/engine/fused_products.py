"""Linear layers and MLPs by kernels, on a CPU in float32.

An MLP is one kernel each way. torch writes its hidden features, four times as wide as the model, to
memory and reads them again for every operation; the kernel computes blocks of rows whose hidden
features stay in a core's caches, and keeps only what the activation is computed of. A norm before a
layer, and the residual sum behind an MLP, are part of its kernel.
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from adaptlab.engine.compiled import Kernels, kernels_for
from adaptlab.engine.tensors import Float, Shaped

ROWS_A_PART = 1024
"""Rows of a group that one thread computes, and whose gradients of weights are summed."""
LEAST_ROWS = 32
"""Below this many rows per group, packing the weights takes more time than it saves."""
LEAST_OUTPUTS = 8
"""Below this many outputs, most of every tile would be wasted."""
LARGEST, LARGEST_TRAINED = 2**22, 2**19
"""Scalars of the largest frozen and trained weight for which the kernels beat torch."""


@dataclass(frozen=True)
class NormWeights:
    """The weights of a layer norm."""

    scale: Float[Tensor, "G C"]
    shift: Float[Tensor, "G2 C"]
    epsilon: float


@dataclass(frozen=True)
class MlpWeights:
    """The weights of the two linear layers of an MLP."""

    up: Float[Tensor, "G H C"]
    up_bias: Float[Tensor, "G2 H"]
    down: Float[Tensor, "G3 C H"]
    down_bias: Float[Tensor, "G4 C"]


def fused_linear(
    x: Float[Tensor, "R *N I"],
    weight: Float[Tensor, "G O I"],
    bias: Float[Tensor, "G2 O"] | None,
    norm: NormWeights | None = None,
) -> Float[Tensor, "R *N O"] | None:
    """Return W x + b, of x after its norm if there is one.

    None if there is no kernel for it, for example because weights differ in their groups.
    """
    of_norm = _scale_and_shift(norm)
    kernels = _kernels(x, (weight, bias, *of_norm))
    if kernels is None:
        return None
    product: Tensor = _Linear.apply(x, *of_norm, weight, bias, _epsilon(norm), kernels)  # pyright: ignore[reportAssignmentType]
    return product


def fused_mlp(
    x: Float[Tensor, "R *N C"], mlp: MlpWeights, norm: NormWeights | None, *, adds: bool
) -> Float[Tensor, "R *N C"] | None:
    """Return W_down gelu(W_up x + b_up) + b_down, of x after its norm.

    GELU is in its tanh form. With `adds`, x is added to the result. None if there is no kernel for
    it, for example because weights differ in their groups.
    """
    weights, of_norm = (mlp.up, mlp.up_bias, mlp.down, mlp.down_bias), _scale_and_shift(norm)
    kernels = _kernels(x, (*weights, *of_norm))
    if kernels is None:
        return None
    fused: Tensor = _Mlp.apply(x, *of_norm, *weights, _epsilon(norm), adds, kernels)  # pyright: ignore[reportAssignmentType]
    return fused


def _scale_and_shift(norm: NormWeights | None) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if norm is None else (norm.scale, norm.shift)


def _epsilon(norm: NormWeights | None) -> float:
    return 0.0 if norm is None else norm.epsilon


def _kernels(x: Tensor, given: Sequence[Tensor | None]) -> Kernels | None:
    """Return the kernels for these weights; None if torch computes.

    The first of them is the largest.
    """
    weights = [weight for weight in given if weight is not None]
    groups, outputs, inputs = weights[0].shape
    if x.dtype != torch.float32 or len(x) % groups or any(len(w) != groups for w in weights):
        return None
    trained = torch.is_grad_enabled() and any(weight.requires_grad for weight in weights)
    if outputs * inputs > (LARGEST_TRAINED if trained else LARGEST):
        return None
    if outputs < LEAST_OUTPUTS or x.numel() < LEAST_ROWS * groups * inputs:
        return None
    kernels = kernels_for(x, *weights)
    return kernels if kernels is not None and kernels.has_products else None


class _InputArgument(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "scale", "shift", "mean", "inverse")),
        *((name, ctypes.c_void_p) for name in ("dx", "dscale", "dshift")),
        ("width", ctypes.c_int64),
        ("epsilon", ctypes.c_double),
    )


class _LinearArgument(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        ("input", _InputArgument),
        *((name, ctypes.c_void_p) for name in ("weight", "bias", "y", "dy", "dweight", "dbias")),
        *((name, ctypes.c_int64) for name in ("groups", "rows", "outputs", "parts")),
    )


class _MlpArgument(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        ("input", _InputArgument),
        *((name, ctypes.c_void_p) for name in ("up", "up_bias", "down", "down_bias")),
        *((name, ctypes.c_void_p) for name in ("before", "y", "dy")),
        *((name, ctypes.c_void_p) for name in ("dup", "dup_bias", "ddown", "ddown_bias")),
        *((name, ctypes.c_int64) for name in ("adds", "groups", "rows", "hidden", "parts")),
    )


class _Linear(torch.autograd.Function):
    """A linear layer by a kernel; the backward pass recomputes the norm."""

    @staticmethod
    def forward(  # torch's context is of any type
        ctx: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None, weight: Tensor,
        bias: Tensor | None, epsilon: float, kernels: Kernels,
    ) -> Tensor:  # fmt: skip
        given = _contiguous((x, scale, shift, weight, bias))
        moments, y = _moments(given), x.new_empty(*x.shape[:-1], weight.shape[1])
        kernels.product("linear", _linear(given, moments, epsilon, y=y), back=False)
        ctx.save_for_backward(moments, *given)
        ctx.epsilon, ctx.kernels = epsilon, kernels
        return y

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        moments, *given = ctx.saved_tensors
        asked, incoming = ctx.needs_input_grad[: len(given)], grad_outputs[0].contiguous()
        room = _room(given, asked)
        argument = _linear(given, moments, ctx.epsilon, room, dy=incoming)
        ctx.kernels.product("linear", argument, back=True)
        return *_summed(room, asked), None, None


class _Mlp(torch.autograd.Function):
    """An MLP by a kernel; the backward pass recomputes what is within."""

    @staticmethod
    def forward(  # torch's context is of any type
        ctx: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None, up: Tensor,
        up_bias: Tensor, down: Tensor, down_bias: Tensor, epsilon: float, adds: bool,
        kernels: Kernels,
    ) -> Tensor:  # fmt: skip
        given = _contiguous((x, scale, shift, up, up_bias, down, down_bias))
        moments, y = _moments(given), x.new_empty(x.shape)
        kept = any(ctx.needs_input_grad)
        before = x.new_empty(*x.shape[:-1], up.shape[1]) if kept else None
        argument = _mlp(given, moments, epsilon, adds, before=before, y=y)
        kernels.product("mlp", argument, back=False)
        ctx.save_for_backward(moments, before, *given)
        ctx.epsilon, ctx.adds, ctx.kernels = epsilon, adds, kernels
        return y

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        moments, before, *given = ctx.saved_tensors
        asked, incoming = ctx.needs_input_grad[: len(given)], grad_outputs[0].contiguous()
        room = _room(given, asked)
        argument = _mlp(given, moments, ctx.epsilon, ctx.adds, room, before=before, dy=incoming)
        ctx.kernels.product("mlp", argument, back=True)
        return *_summed(room, asked), None, None, None


_Tensors = Sequence[Tensor | None]
_INPUT = ("x", "scale", "shift")
_LINEAR = ("weight", "bias")
_MLP = ("up", "up_bias", "down", "down_bias")


def _contiguous(given: _Tensors) -> _Tensors:
    return [each if each is None else each.contiguous() for each in given]


def _read(given: _Tensors) -> tuple[Tensor, Tensor]:
    """Return x and the first weight."""
    x, weight = given[0], given[3]
    assert x is not None
    assert weight is not None
    return x, weight


def _moments(given: _Tensors) -> Tensor | None:
    """Return room for mean and inverse deviation of rows, if there is a norm."""
    x, _ = _read(given)
    return None if given[1] is None else x.new_empty(2, x.numel() // x.shape[-1])


def _room(given: _Tensors, asked: Sequence[bool]) -> _Tensors:
    """Return room for gradients: that of x, and by part those of weights.

    The kernel computes those of a norm together or not at all.
    """
    x, weight = _read(given)
    parts, of_norm = _parts(x, weight), asked[1] or asked[2]
    wanted = (of_norm, of_norm, *asked[3:])
    sums = (
        each.new_empty(len(each), parts, *each.shape[1:]) if each is not None and want else None
        for each, want in zip(given[1:], wanted, strict=True)
    )
    return [torch.empty_like(x) if asked[0] else None, *sums]


def _summed(room: _Tensors, asked: Sequence[bool]) -> list[Tensor | None]:
    """Return gradients, those of weights [G, P, ...] summed over the parts."""
    gradients: list[Tensor | None] = [room[0]]
    for each, want in zip(room[1:], asked[1:], strict=True):
        if each is None or not want:
            gradients.append(None)
        else:
            gradients.append(summed(each))
    return gradients


def summed(parts: Shaped[Tensor, "G P *N"]) -> Shaped[Tensor, "G *N"]:
    """Return the sum over the parts of a gradient."""
    return parts.squeeze(1) if parts.shape[1] == 1 else parts.sum(1)


def _linear(
    given: _Tensors,
    moments: Tensor | None,
    epsilon: float,
    room: _Tensors = (None,) * 5,
    **others: Tensor | None,
) -> _LinearArgument:
    """Return what the kernel reads: x, its norm, weights, other arrays."""
    arrays = {**_both(_LINEAR, given[3:], room[3:]), **others}
    outputs = _read(given)[1].shape[1]
    read = _input(given, moments, epsilon, room)
    return _LinearArgument(input=read, **_at(arrays), outputs=outputs, **_sizes(given))


def _mlp(
    given: _Tensors,
    moments: Tensor | None,
    epsilon: float,
    adds: bool,
    room: _Tensors = (None,) * 7,
    **others: Tensor | None,
) -> _MlpArgument:
    """Return what the kernel reads: x, its norm, weights, other arrays."""
    arrays = {**_both(_MLP, given[3:], room[3:]), **others}
    hidden = _read(given)[1].shape[1]
    read = _input(given, moments, epsilon, room)
    return _MlpArgument(input=read, **_at(arrays), adds=adds, hidden=hidden, **_sizes(given))


def _input(
    given: _Tensors, moments: Tensor | None, epsilon: float, room: _Tensors
) -> _InputArgument:
    mean, inverse = (None, None) if moments is None else moments
    arrays = {**_both(_INPUT, given[:3], room[:3]), "mean": mean, "inverse": inverse}
    return _InputArgument(**_at(arrays), width=_read(given)[1].shape[-1], epsilon=epsilon)


def _both(names: Sequence[str], given: _Tensors, room: _Tensors) -> dict[str, Tensor | None]:
    """Return arrays by name, and room for the gradients of them."""
    gradients = (f"d{name}" for name in names)
    return dict(zip((*names, *gradients), (*given, *room), strict=True))


def _sizes(given: _Tensors) -> dict[str, int]:
    x, weight = _read(given)
    groups, _, width = weight.shape
    return {"groups": groups, "rows": x.numel() // (groups * width), "parts": _parts(x, weight)}


def _at(arrays: Mapping[str, Tensor | None]) -> dict[str, int | None]:
    return {name: None if each is None else each.data_ptr() for name, each in arrays.items()}


def _parts(x: Tensor, weight: Tensor) -> int:
    """Return into how many parts the rows of a group are divided."""
    return max(1, x.numel() // (len(weight) * weight.shape[-1] * ROWS_A_PART))
