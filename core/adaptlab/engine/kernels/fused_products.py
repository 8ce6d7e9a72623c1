"""Linear layers and MLPs by kernels, on a CPU in float32.

Layers that read the same input are one kernel each way, which reads the input and its norm once.

An MLP is one kernel as well. torch writes its hidden features, four times as wide as the model, to
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

from adaptlab.engine.kernels.compiled import Kernels, kernels_for
from adaptlab.engine.tensors import Float, Shaped

ROWS_A_PART = 1024
"""Rows of a group that one thread computes, and whose gradients of weights are summed."""
LEAST_ROWS = 32
"""Below this many rows per group, packing the weights takes more time than it saves."""
LEAST_OUTPUTS = 8
"""Below this many outputs, most of every tile would be wasted."""
MOST_LAYERS = 3
"""Layers of one input, as in `products.c`."""
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


@dataclass(frozen=True)
class LinearWeights:
    """A linear layer, whose output is multiplied by `factor`.

    With `reads_some` it reads only some rows of what it is given.
    """

    weight: Float[Tensor, "G O I"]
    bias: Float[Tensor, "G2 O"] | None
    factor: float = 1.0
    reads_some: bool = False


def fused_linear(
    x: Float[Tensor, "R *N I"],
    weight: Float[Tensor, "G O I"],
    bias: Float[Tensor, "G2 O"] | None,
    norm: NormWeights | None = None,
) -> Float[Tensor, "R *N O"] | None:
    """Return W x + b, of x after its norm if there is one.

    None if there is no kernel for it, for example because weights differ in their groups.
    """
    found = _linear_outputs(x, (LinearWeights(weight, bias),), norm, None)
    return None if found is None else found[1]


def fused_layers(
    x: Float[Tensor, "R B N I"],
    layers: Sequence[LinearWeights],
    norm: NormWeights | None,
    some: slice,
) -> tuple[Tensor, ...] | None:
    """Return `some` rows of x, and what layers give for x after its norm.

    The first layer reads all rows. None if there is no kernel for it, as for `fused_linear`.
    """
    first, stop, step = some.indices(x.shape[2])
    if step != 1 or stop <= first:
        return None
    return _linear_outputs(x, layers, norm, (first, stop))


def _linear_outputs(
    x: Tensor,
    layers: Sequence[LinearWeights],
    norm: NormWeights | None,
    some: tuple[int, int] | None,
) -> tuple[Tensor, ...] | None:
    scale, shift = _scale_and_shift(norm)
    weights = [each for layer in layers for each in (layer.weight, layer.bias)]
    kernels = _kernels(x, [layer.weight for layer in layers], (*weights, scale, shift))
    if kernels is None:
        return None
    every = some is None or some == (0, x.shape[-2])
    kinds = tuple((layer.factor, layer.reads_some and not every) for layer in layers)
    reading = _Reading(kinds, None if every else some, some is not None, _epsilon(norm), kernels)
    outputs: tuple[Tensor, ...] = _Linear.apply(x, scale, shift, *weights, reading)  # pyright: ignore[reportAssignmentType]
    return outputs


@dataclass(frozen=True)
class _Reading:
    """How layers read their input: factors, and which read some rows.

    `some` are these rows, from the first to before the last; None if they are all. With `passes`,
    they are a result as well.
    """

    kinds: tuple[tuple[float, bool], ...]
    some: tuple[int, int] | None
    passes: bool
    epsilon: float
    kernels: Kernels


def fused_mlp(
    x: Float[Tensor, "R *N C"], mlp: MlpWeights, norm: NormWeights | None, *, adds: bool
) -> Float[Tensor, "R *N C"] | None:
    """Return W_down gelu(W_up x + b_up) + b_down, of x after its norm.

    GELU is in its tanh form. With `adds`, x is added to the result. None if there is no kernel for
    it, for example because weights differ in their groups.
    """
    weights, of_norm = (mlp.up, mlp.up_bias, mlp.down, mlp.down_bias), _scale_and_shift(norm)
    kernels = _kernels(x, (mlp.up,), (*weights, *of_norm))
    if kernels is None:
        return None
    fused: Tensor = _Mlp.apply(x, *of_norm, *weights, _epsilon(norm), adds, kernels)  # pyright: ignore[reportAssignmentType]
    return fused


def _scale_and_shift(norm: NormWeights | None) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if norm is None else (norm.scale, norm.shift)


def _epsilon(norm: NormWeights | None) -> float:
    return 0.0 if norm is None else norm.epsilon


def _kernels(
    x: Tensor, products: Sequence[Tensor], given: Sequence[Tensor | None]
) -> Kernels | None:
    """Return the kernels for these weights; None if torch computes.

    `products` are those by which x is multiplied.
    """
    weights = [weight for weight in given if weight is not None]
    groups = len(products[0])
    if x.dtype != torch.float32 or len(x) % groups or any(len(w) != groups for w in weights):
        return None
    trained = torch.is_grad_enabled() and any(weight.requires_grad for weight in weights)
    most = LARGEST_TRAINED if trained else LARGEST
    if any(each.shape[1] < LEAST_OUTPUTS or each[0].numel() > most for each in products):
        return None
    if x.numel() < LEAST_ROWS * groups * x.shape[-1]:
        return None
    kernels = kernels_for(x, *weights)
    return kernels if kernels is not None and kernels.has_products else None


class _WeightsArgument(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (("at", ctypes.c_void_p), ("group", ctypes.c_int64))


class _InputArgument(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        ("x", ctypes.c_void_p),
        *((name, _WeightsArgument) for name in ("scale", "shift")),
        *((name, ctypes.c_void_p) for name in ("mean", "inverse", "dx", "dscale", "dshift")),
        ("width", ctypes.c_int64),
        ("epsilon", ctypes.c_double),
    )


class _LayerArgument(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        *((name, _WeightsArgument) for name in ("weight", "bias")),
        *((name, ctypes.c_void_p) for name in ("y", "dy", "dweight", "dbias")),
        *((name, ctypes.c_int64) for name in ("outputs", "reads_some")),
        ("factor", ctypes.c_double),
    )


class _LinearArgument(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        ("input", _InputArgument),
        ("layers", _LayerArgument * MOST_LAYERS),
        *((name, ctypes.c_void_p) for name in ("passed", "dpassed")),
        *((name, ctypes.c_int64) for name in ("count", "groups", "rows", "parts")),
        *((name, ctypes.c_int64) for name in ("first", "stop", "length")),
    )


class _MlpArgument(ctypes.Structure):
    """As in `products.c`."""

    _fields_ = (
        ("input", _InputArgument),
        *((name, _WeightsArgument) for name in ("up", "up_bias", "down", "down_bias")),
        *((name, ctypes.c_void_p) for name in ("before", "y", "dy")),
        *((name, ctypes.c_void_p) for name in ("dup", "dup_bias", "ddown", "ddown_bias")),
        *((name, ctypes.c_int64) for name in ("adds", "groups", "rows", "hidden", "parts")),
    )


class _Linear(torch.autograd.Function):
    """Linear layers by a kernel; the backward pass recomputes the norm.

    The results are rows of x, or None if they are not asked for, and the outputs of the layers.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, *given_and_reading: Any) -> tuple[Tensor | None, ...]:
        *weights, reading = given_and_reading
        given = _as_read(x, weights)
        moments, lead = _moments(given), x.shape[:-1]
        some = lead if reading.some is None else (*lead[:-1], reading.some[1] - reading.some[0])
        passed = x if reading.some is None else x.new_empty(*some, x.shape[-1])
        argument, outputs = _linear(given, moments, reading), list[Tensor]()
        argument.passed = None if reading.some is None else passed.data_ptr()
        for layer in argument.layers[: argument.count]:
            output = x.new_empty(*(some if layer.reads_some else lead), layer.outputs)
            layer.y = output.data_ptr()
            outputs.append(output)
        reading.kernels.product("linear", argument, back=False)
        ctx.save_for_backward(moments, *given)
        ctx.set_materialize_grads(False)
        ctx.reading, ctx.shapes = reading, [output.shape for output in outputs]
        return passed if reading.passes else None, *outputs

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        moments, *given = ctx.saved_tensors
        of_passed, *of_outputs = grad_outputs
        asked = ctx.needs_input_grad[: len(given)]
        room = _room(given, asked)
        argument = _linear(given, moments, ctx.reading, room)
        incoming = [
            given[0].new_zeros(shape) if each is None else each.contiguous()
            for each, shape in zip(of_outputs, ctx.shapes, strict=True)
        ]
        for layer, each in zip(argument.layers, incoming, strict=False):
            layer.dy = each.data_ptr()
        if of_passed is not None:
            of_passed = of_passed.contiguous()
            argument.dpassed = of_passed.data_ptr()
        ctx.reading.kernels.product("linear", argument, back=True)
        return *_summed(room, asked), None


class _Mlp(torch.autograd.Function):
    """An MLP by a kernel; the backward pass recomputes what is within."""

    @staticmethod
    def forward(  # torch's context is of any type
        ctx: Any, x: Tensor, scale: Tensor | None, shift: Tensor | None, up: Tensor,
        up_bias: Tensor, down: Tensor, down_bias: Tensor, epsilon: float, adds: bool,
        kernels: Kernels,
    ) -> Tensor:  # fmt: skip
        given = _as_read(x, (scale, shift, up, up_bias, down, down_bias))
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
_MLP = ("up", "up_bias", "down", "down_bias")


def _as_read(x: Tensor, weights: _Tensors) -> _Tensors:
    """Return x and weights with what kernels read of them in one place."""
    return [x.contiguous(), *(each if each is None else _by_group(each) for each in weights)]


def _by_group(weights: Tensor) -> Tensor:
    """Return weights [G, ...] of which those of a group are in one place."""
    return weights if weights[0].is_contiguous() else weights.contiguous()


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
    given: _Tensors, moments: Tensor | None, reading: _Reading, room: _Tensors | None = None
) -> _LinearArgument:
    """Return what the kernel reads: x, its norm, and the layers' weights."""
    room = room or [None] * len(given)
    layers: list[_LayerArgument] = []
    for number, (factor, reads_some) in enumerate(reading.kinds):
        at = 3 + 2 * number
        weight, bias = given[at : at + 2]
        dweight, dbias = room[at : at + 2]
        assert weight is not None
        layers.append(
            _LayerArgument(
                weight=_weights(weight),
                bias=_weights(bias),
                **_at({"dweight": dweight, "dbias": dbias}),
                outputs=weight.shape[1],
                reads_some=reads_some,
                factor=factor,
            )
        )
    first, stop = reading.some or (0, _read(given)[0].shape[-2])
    return _LinearArgument(
        input=_input(given, moments, reading.epsilon, room),
        layers=(_LayerArgument * MOST_LAYERS)(*layers),
        count=len(layers),
        **_sizes(given),
        first=first,
        stop=stop,
        length=_read(given)[0].shape[-2],
    )


def _mlp(
    given: _Tensors,
    moments: Tensor | None,
    epsilon: float,
    adds: bool,
    room: _Tensors = (None,) * 7,
    **others: Tensor | None,
) -> _MlpArgument:
    """Return what the kernel reads: x, its norm, weights, other arrays."""
    weights = {name: _weights(each) for name, each in zip(_MLP, given[3:], strict=True)}
    gradients = {f"d{name}": each for name, each in zip(_MLP, room[3:], strict=True)}
    return _MlpArgument(
        input=_input(given, moments, epsilon, room),
        **weights,
        **_at({**gradients, **others}),
        adds=adds,
        hidden=_read(given)[1].shape[1],
        **_sizes(given),
    )


def _input(
    given: _Tensors, moments: Tensor | None, epsilon: float, room: _Tensors
) -> _InputArgument:
    x, scale, shift, *_ = given
    mean, inverse = (None, None) if moments is None else moments
    arrays = {"x": x, "mean": mean, "inverse": inverse}
    gradients = {"dx": room[0], "dscale": room[1], "dshift": room[2]}
    return _InputArgument(
        **_at({**arrays, **gradients}),
        scale=_weights(scale),
        shift=_weights(shift),
        width=_read(given)[1].shape[-1],
        epsilon=epsilon,
    )


def _weights(weights: Tensor | None) -> _WeightsArgument:
    if weights is None:
        return _WeightsArgument()
    return _WeightsArgument(weights.data_ptr(), weights.stride(0))


def _sizes(given: _Tensors) -> dict[str, int]:
    x, weight = _read(given)
    groups, _, width = weight.shape
    return {"groups": groups, "rows": x.numel() // (groups * width), "parts": _parts(x, weight)}


def _at(arrays: Mapping[str, Tensor | None]) -> dict[str, int | None]:
    return {name: None if each is None else each.data_ptr() for name, each in arrays.items()}


def _parts(x: Tensor, weight: Tensor) -> int:
    """Return into how many parts the rows of a group are divided."""
    return max(1, x.numel() // (len(weight) * weight.shape[-1] * ROWS_A_PART))
