"""Layers whose weights carry a leading group axis.

A weight of G groups serves R replicates when G divides R: with G = 1 all replicates share one
base, with G = R every replicate has its own, in between consecutive replicates share.
"""

import torch
from torch import Tensor
from torch.nn import functional


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply x [R, ..., I] by weight [G, O, I] and add bias [G', O]; gives [R, ..., O]."""
    groups, outputs, inputs = weight.shape
    if bias is not None and bias.shape[0] != groups:  # biases are trained, matrices are shared
        return add(linear(x, weight, None), bias)
    if groups == 1:
        return functional.linear(x, weight[0], None if bias is None else bias[0])
    rows = x.reshape(groups, -1, inputs)  # G, R/G·…, I
    if bias is None:
        product = torch.bmm(rows, weight.transpose(1, 2))
    else:
        product = torch.baddbmm(bias.unsqueeze(1), rows, weight.transpose(1, 2))
    return product.view(*x.shape[:-1], outputs)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float = 1e-5) -> Tensor:
    """Normalise the last axis of x [R, ..., C], then scale by [G, C] and shift by [G', C]."""
    groups, width = weight.shape
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
    if groups == 1:
        return functional.rms_norm(x, (width,), weight[0], epsilon)
    return scale(functional.rms_norm(x, (width,), eps=epsilon), weight)


def scale(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply x [R, ..., C] by weight [G, C]."""
    return (x.reshape(len(weight), -1, x.shape[-1]) * weight.unsqueeze(1)).view(x.shape)


def add(x: Tensor, bias: Tensor) -> Tensor:
    """Add bias [G, C] to x [R, ..., C]."""
    return (x.reshape(len(bias), -1, x.shape[-1]) + bias.unsqueeze(1)).view(x.shape)


def embedding(tokens: Tensor, weight: Tensor) -> Tensor:
    """Look up tokens [R, B, T] in weight [G, V, C]; gives [R, B, T, C]."""
    groups, vocabulary, width = weight.shape
    if groups == 1:
        return functional.embedding(tokens, weight[0])
    offsets = torch.arange(groups, device=tokens.device) * vocabulary
    flat = tokens.reshape(groups, -1) + offsets.unsqueeze(1)
    return functional.embedding(flat, weight.reshape(-1, width)).view(*tokens.shape, width)


def positions(weight: Tensor, replicates: int, length: int) -> Tensor:
    """The first rows of weight [G, N, C] for every replicate, as [R, 1, T, C]."""
    rows = weight[:, :length]
    if weight.shape[0] not in (1, replicates):
        rows = rows.repeat_interleave(replicates // weight.shape[0], dim=0)
    return rows.unsqueeze(1)
