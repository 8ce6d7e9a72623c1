"""Layers whose weights have a leading group axis.

A weight of G groups serves R replicates if G divides R: with G = 1 all replicates share one base,
with G = R each has its own, and in between R/G consecutive replicates share one.

Activations may be shared likewise: if x has A < R rows on its leading axis, each row serves R/A
consecutive replicates (the trials of a seed see the same items). Whatever does not depend on the
trial is computed once.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from adaptlab.engine.kernels.compiled import kernels_for
from adaptlab.engine.kernels.fused_products import fused_linear
from adaptlab.engine.tensors import Float, Int, Shaped


def lifted(x: Shaped[Tensor, "A *N"], replicates: int) -> Shaped[Tensor, "R *N"]:
    """Repeat x for at least `replicates` rows; unchanged if it has as many."""
    return x if len(x) >= replicates else x.repeat_interleave(replicates // len(x), 0)


def picked(
    x: Float[Tensor, "R B Q C"], rows: Int[Tensor, "A B M"] | None
) -> Float[Tensor, "R B M C"]:
    """Return some rows of every item; all of them if `rows` is None."""
    if rows is None:
        return x
    index = lifted(rows, len(x)).unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])
    return lifted(x, len(index)).gather(2, index)


def plus(x: Float[Tensor, "A ..."], y: Float[Tensor, "A2 ..."]) -> Float[Tensor, "R ..."]:
    """Add x and y; of A and A2 one divides the other, and R is the larger."""
    if len(x) == len(y) or 1 in (len(x), len(y)):
        return x + y
    fewer, more = (x, y) if len(x) < len(y) else (y, x)
    return (fewer.unsqueeze(1) + more.unflatten(0, (len(fewer), -1))).flatten(0, 1)


def linear(
    x: Float[Tensor, "A *N I"], weight: Float[Tensor, "G O I"], bias: Float[Tensor, "G2 O"] | None
) -> Float[Tensor, "R *N O"]:
    """Multiply x by weight and add bias."""
    groups, outputs, inputs = weight.shape
    if groups > len(x):  # x is shared: one product with the matrices of all that share it
        share = groups // len(x)
        product = linear(x, weight.reshape(len(x), share * outputs, inputs), None)
        product = product.unflatten(-1, (share, outputs)).movedim(-2, 1).flatten(0, 1)
        return product if bias is None else add(product, bias)
    if bias is not None and bias.shape[0] != groups:  # biases are trained, matrices are shared
        return add(linear(x, weight, None), bias)
    if (product := fused_linear(x, weight, bias)) is not None:
        return product
    if groups == 1:
        rows = x.reshape(-1, inputs)  # a slice of positions would be one product per sample
        product = functional.linear(rows, weight[0], None if bias is None else bias[0])
        return product.view(*x.shape[:-1], outputs)
    rows = x.reshape(groups, -1, inputs)  # G, R/G·…, I
    product = torch.bmm(rows, weight.transpose(1, 2))
    if bias is not None:
        product.add_(bias.unsqueeze(1))  # twice as fast here as `baddbmm`, which copies the bias
    return product.view(*x.shape[:-1], outputs)


def layer_norm(
    x: Float[Tensor, "A *N C"],
    weight: Float[Tensor, "G C"],
    bias: Float[Tensor, "G2 C"] | None,
    epsilon: float = 1e-5,
) -> Float[Tensor, "R *N C"]:
    """Normalise the last axis of x, then scale by weight, shift by bias."""
    groups, width = weight.shape
    x = lifted(x, groups)
    if (bias is None or len(bias) == groups) and kernels_for(x, weight, bias) is not None:
        normalised: Tensor = _Norm.apply(x, weight, bias, epsilon)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
        return normalised
    if groups == 1 and (bias is None or bias.shape[0] == 1):
        shift = None if bias is None else bias[0]
        return functional.layer_norm(x, (width,), weight[0], shift, epsilon)
    normal = functional.layer_norm(x, (width,), eps=epsilon)
    if bias is None or groups != bias.shape[0]:
        scaled = scale(normal, weight)
        return scaled if bias is None else add(scaled, bias)
    affine: Tensor = _Affine.apply(normal.view(groups, -1, width), weight, bias)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    return affine.view(x.shape)


class _Affine(torch.autograd.Function):
    """Rows x [G, N, C] times weight [G, C] plus bias [G, C].

    The gradient of `torch.addcmul` first multiplies rows and weight by one, each in a kernel.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # torch's context
        ctx.save_for_backward(rows, weight)
        return torch.addcmul(bias.unsqueeze(1), rows, weight.unsqueeze(1))

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        (rows, weight), incoming = ctx.saved_tensors, grad_outputs[0]
        of_rows, of_weight, of_bias = ctx.needs_input_grad
        return (
            incoming * weight.unsqueeze(1) if of_rows else None,
            (incoming * rows).sum(1) if of_weight else None,
            incoming.sum(1) if of_bias else None,
        )


class _Norm(torch.autograd.Function):
    """Layer norm by compiled kernels, one pass forward and one backward."""

    @staticmethod
    def forward(  # torch does not type contexts
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float
    ) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        kernels = kernels_for(x, weight, bias)
        assert kernels is not None
        y, moments = kernels.norm(x, weight, bias if bias is None else bias.contiguous(), epsilon)
        ctx.save_for_backward(x, weight, moments)
        ctx.kernels = kernels
        return y

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        x, weight, moments = ctx.saved_tensors
        needed = ctx.needs_input_grad[1], ctx.needs_input_grad[2]
        gradient, sums = ctx.kernels.norm_backward(
            x, weight, grad_outputs[0].contiguous(), moments, any(needed)
        )
        sums = None if sums is None else sums.to(weight.dtype)
        scale, shift = (sums[:, i] if sums is not None and needed[i] else None for i in (0, 1))
        return gradient, scale, shift, None


def rms_norm(
    x: Float[Tensor, "A *N C"], weight: Float[Tensor, "G C"], epsilon: float
) -> Float[Tensor, "R *N C"]:
    """Divide the last axis of x by its root mean square, then scale.

    There is no shift, and no mean is subtracted (Zhang, Sennrich 2019).
    """
    groups, width = weight.shape
    x = lifted(x, groups)
    if groups == 1:
        return functional.rms_norm(x, (width,), weight[0], epsilon)
    return scale(functional.rms_norm(x, (width,), eps=epsilon), weight)


def scale(x: Float[Tensor, "A *N C"], weight: Float[Tensor, "G C"]) -> Float[Tensor, "R *N C"]:
    """Multiply x by weight, elementwise."""
    x = lifted(x, len(weight))
    return (x.reshape(len(weight), -1, x.shape[-1]) * weight.unsqueeze(1)).view(x.shape)


def add(x: Float[Tensor, "A *N C"], bias: Float[Tensor, "G C"]) -> Float[Tensor, "R *N C"]:
    """Add bias to x."""
    x = lifted(x, len(bias))
    return (x.reshape(len(bias), -1, x.shape[-1]) + bias.unsqueeze(1)).view(x.shape)


def embedding(
    tokens: Int[Tensor, "A *N"], weight: Float[Tensor, "G V C"]
) -> Float[Tensor, "R *N C"]:
    """Look up tokens in weight.

    The gradient of a row sums over all its tokens, which needs more digits than bfloat16 has.
    """
    groups, vocabulary, width = weight.shape
    tokens = lifted(tokens, groups)
    if groups > 1:
        offsets = torch.arange(groups, device=tokens.device) * vocabulary
        tokens = (tokens.reshape(groups, -1) + offsets.unsqueeze(1)).view(tokens.shape)
    rows = weight.reshape(-1, width)
    if weight.dtype != torch.bfloat16 and kernels_for(weight) is None:
        return functional.embedding(tokens, rows)
    looked_up: Tensor = _Rows.apply(tokens, rows)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    return looked_up


class _Rows(torch.autograd.Function):
    """Rows of weight [V, C]; their gradient is summed in float32."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor) -> Tensor:  # torch has no type for it
        ctx.save_for_backward(tokens)
        ctx.vocabulary = len(weight)
        return functional.embedding(tokens, weight)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[None, Tensor]:
        (tokens,), incoming = ctx.saved_tensors, grad_outputs[0]
        kernels = kernels_for(incoming)
        if kernels is not None:
            taken = tokens.contiguous()
            summed = kernels.rows_backward(incoming.contiguous(), taken, ctx.vocabulary)
        else:
            summed = torch.ops.aten.embedding_dense_backward(
                incoming.float(), tokens, ctx.vocabulary, -1, False
            )
        return None, summed.to(incoming.dtype)


def chosen(
    table: Float[Tensor, "G V N *C"], tokens: Int[Tensor, "A B N"]
) -> Float[Tensor, "R B N *C"]:
    """Look up tokens in a table that has a vector per token and position."""
    vocabulary, length = table.shape[1:3]
    rows = tokens * length + torch.arange(length, device=tokens.device)
    flat = table.reshape(len(table), vocabulary * length, -1)
    return embedding(rows, flat).unflatten(-1, table.shape[3:])


def positions(
    weight: Float[Tensor, "G N C"], replicates: int, length: int
) -> Float[Tensor, "A 1 {length} C"]:
    """Return the first `length` rows of weight; A is 1 or `replicates`."""
    rows = weight[:, :length]
    return (rows if len(rows) == 1 else lifted(rows, replicates)).unsqueeze(1)
