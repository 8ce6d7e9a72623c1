"""Layers whose weights carry a leading group axis.

A weight of G groups serves R replicates when G divides R: with G = 1 all replicates share one
base, with G = R every replicate has its own, in between consecutive replicates share.

Activations may be shared in the same way: where x has A < R rows on its leading axis, each stands
for R/A consecutive replicates (the trials of a seed see the same items), and what does not depend
on the trial is computed once.
"""

import torch
from torch import Tensor
from torch.nn import functional


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
        return functional.linear(x, weight[0], None if bias is None else bias[0])
    rows = x.reshape(groups, -1, inputs)  # G, R/G·…, I
    product = torch.bmm(rows, weight.transpose(1, 2))
    if bias is not None:
        product.add_(bias.unsqueeze(1))  # twice as fast here as `baddbmm`, which copies the bias
    return product.view(*x.shape[:-1], outputs)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float = 1e-5) -> Tensor:
    """Normalise the last axis of x [R, ..., C], then scale by [G, C] and shift by [G', C]."""
    groups, width = weight.shape
    x = lifted(x, groups)
    if groups == 1 and (bias is None or bias.shape[0] == 1):
        shift = None if bias is None else bias[0]
        return functional.layer_norm(x, (width,), weight[0], shift, epsilon)
    normal = functional.layer_norm(x, (width,), eps=epsilon)
    if bias is None or groups != bias.shape[0]:
        scaled = scale(normal, weight)
        return scaled if bias is None else add(scaled, bias)
    rows = normal.view(groups, -1, width)
    return torch.addcmul(bias.unsqueeze(1), rows, weight.unsqueeze(1)).view(x.shape)


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
    if weight.requires_grad and weight.dtype == torch.bfloat16:
        return embedding(tokens, weight.float()).bfloat16()
    groups, vocabulary, width = weight.shape
    tokens = lifted(tokens, groups)
    if groups == 1:
        return functional.embedding(tokens, weight[0])
    offsets = torch.arange(groups, device=tokens.device) * vocabulary
    flat = tokens.reshape(groups, -1) + offsets.unsqueeze(1)
    return functional.embedding(flat, weight.reshape(-1, width)).view(*tokens.shape, width)


def positions(weight: Tensor, replicates: int, length: int) -> Tensor:
    """The first rows of weight [G, N, C] for every replicate, as [R, 1, T, C]."""
    rows = weight[:, :length]
    return (rows if len(rows) == 1 else lifted(rows, replicates)).unsqueeze(1)
