"""Layers whose weights carry a leading group axis.

A weight of G groups serves R replicates when G divides R: with G = 1 all replicates share one
base, with G = R every replicate has its own, in between consecutive replicates share.

Activations may be shared in the same way: where x has A < R rows on its leading axis, each stands
for R/A consecutive replicates (the trials of a seed see the same items), and what does not depend
on the trial is computed once.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from adaptlab.engine.compiled import kernels_for


def lifted(x: Tensor, replicates: int) -> Tensor:
    """X [A, ...] repeated to [R, ...] for at least so many replicates; unchanged if it has them."""
    return x if len(x) >= replicates else x.repeat_interleave(replicates // len(x), 0)


def plus(x: Tensor, y: Tensor) -> Tensor:
    """The sum of x [A, ...] and y [A', ...], of which one divides the other; [max(A, A'), ...]."""
    if len(x) == len(y) or 1 in (len(x), len(y)):
        return x + y
    fewer, more = (x, y) if len(x) < len(y) else (y, x)
    return (fewer.unsqueeze(1) + more.unflatten(0, (len(fewer), -1))).flatten(0, 1)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply x [R, ..., I] by weight [G, O, I] and add bias [G', O]; gives [R, ..., O]."""
    groups, outputs, inputs = weight.shape
    if groups > len(x):  # x is shared: one product with the matrices of all who share it
        share = groups // len(x)
        product = linear(x, weight.reshape(len(x), share * outputs, inputs), None)
        product = product.unflatten(-1, (share, outputs)).movedim(-2, 1).flatten(0, 1)
        return product if bias is None else add(product, bias)
    if bias is not None and bias.shape[0] != groups:  # biases are trained, matrices are shared
        return add(linear(x, weight, None), bias)
    if groups == 1:
        rows = x.reshape(-1, inputs)  # some positions of many are otherwise a product a sample
        product = functional.linear(rows, weight[0], None if bias is None else bias[0])
        return product.view(*x.shape[:-1], outputs)
    rows = x.reshape(groups, -1, inputs)  # G, R/G·…, I
    product = torch.bmm(rows, weight.transpose(1, 2))
    if bias is not None:
        product.add_(bias.unsqueeze(1))  # twice as fast here as `baddbmm`, which copies the bias
    return product.view(*x.shape[:-1], outputs)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float = 1e-5) -> Tensor:
    """Normalise the last axis of x [R, ..., C], then scale by [G, C] and shift by [G', C]."""
    groups, width = weight.shape
    x = lifted(x, groups)
    if (bias is None or len(bias) == groups) and kernels_for(x, weight, bias) is not None:
        found: Tensor = _Norm.apply(x, weight, bias, epsilon)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
        return found
    if groups == 1 and (bias is None or bias.shape[0] == 1):
        shift = None if bias is None else bias[0]
        return functional.layer_norm(x, (width,), weight[0], shift, epsilon)
    normal = functional.layer_norm(x, (width,), eps=epsilon)
    if bias is None or groups != bias.shape[0]:
        scaled = scale(normal, weight)
        return scaled if bias is None else add(scaled, bias)
    rows = normal.view(groups, -1, width)
    return torch.addcmul(bias.unsqueeze(1), rows, weight.unsqueeze(1)).view(x.shape)


class _Norm(torch.autograd.Function):
    """One pass each way, with compiled kernels."""

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
        wanted = ctx.needs_input_grad[1], ctx.needs_input_grad[2]
        found, sums = ctx.kernels.norm_backward(
            x, weight, grad_outputs[0].contiguous(), moments, any(wanted)
        )
        sums = None if sums is None else sums.to(weight.dtype)
        scale, shift = (sums[:, i] if sums is not None and wanted[i] else None for i in (0, 1))
        return found, scale, shift, None


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Divide the last axis of x [R, ..., C] by its root mean square, then scale by [G, C].

    Nothing is shifted and no mean taken away (Zhang, Sennrich 2019).
    """
    groups, width = weight.shape
    x = lifted(x, groups)
    if groups == 1:
        return functional.rms_norm(x, (width,), weight[0], epsilon)
    return scale(functional.rms_norm(x, (width,), eps=epsilon), weight)


def scale(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply x [R, ..., C] by weight [G, C]."""
    x = lifted(x, len(weight))
    return (x.reshape(len(weight), -1, x.shape[-1]) * weight.unsqueeze(1)).view(x.shape)


def add(x: Tensor, bias: Tensor) -> Tensor:
    """Add bias [G, C] to x [R, ..., C]."""
    x = lifted(x, len(bias))
    return (x.reshape(len(bias), -1, x.shape[-1]) + bias.unsqueeze(1)).view(x.shape)


def embedding(tokens: Tensor, weight: Tensor) -> Tensor:
    """Look up tokens [R, B, T] in weight [G, V, C]; gives [R, B, T, C].

    The gradient of a row sums over all its tokens, which takes more digits than bfloat16 has.
    """
    groups, vocabulary, width = weight.shape
    tokens = lifted(tokens, groups)
    if groups > 1:
        offsets = torch.arange(groups, device=tokens.device) * vocabulary
        tokens = (tokens.reshape(groups, -1) + offsets.unsqueeze(1)).view(tokens.shape)
    rows = weight.reshape(-1, width)
    if weight.dtype != torch.bfloat16 and kernels_for(weight) is None:
        return functional.embedding(tokens, rows)
    found: Tensor = _Rows.apply(tokens, rows)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    return found


class _Rows(torch.autograd.Function):
    """The rows of weight [V, C], of which the gradient is summed in float32."""

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


def chosen(table: Tensor, tokens: Tensor) -> Tensor:
    """The vectors [R, B, N, ...] of tokens [A, B, N] in a table [R, V, N, ...] for each position.

    Like `embedding`, but what a token has differs by position.
    """
    vocabulary, length = table.shape[1:3]
    rows = tokens * length + torch.arange(length, device=tokens.device)
    flat = table.reshape(len(table), vocabulary * length, -1)
    return embedding(rows, flat).unflatten(-1, table.shape[3:])


def positions(weight: Tensor, replicates: int, length: int) -> Tensor:
    """The first rows of weight [G, N, C] for every replicate, as [R, 1, T, C]."""
    rows = weight[:, :length]
    return (rows if len(rows) == 1 else lifted(rows, replicates)).unsqueeze(1)
