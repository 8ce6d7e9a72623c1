"""Layers of the family `formal` with matrices, and models of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.families.formal import AttentionLayer, Formal, Head, Layer, LinearLayer, ReluLayer
from adaptlab.theory.generation import GeneratingBase


@dataclass(frozen=True)
class Block:
    """A layer and its tensors, by name suffix."""

    layer: Layer
    tensors: dict[str, Tensor]


@dataclass(frozen=True)
class Matrices:
    """The matrices of one head: queries and keys [k, C], values [O, C]."""

    queries: Tensor
    keys: Tensor
    values: Tensor


def attention(*heads: Matrices) -> Block:
    """Return an attention layer, with heads zero-padded to one key size.

    So every head divides its scores by the same √k, and padding does not change a score.
    """
    size = key_size(*heads)
    sizes = tuple(Head(key_size=size, value_size=len(head.values)) for head in heads)
    tensors = {
        "attn.q.weight": torch.cat([_padded(head.queries, size) for head in heads]),
        "attn.k.weight": torch.cat([_padded(head.keys, size) for head in heads]),
        "attn.v.weight": torch.cat([head.values for head in heads]),
    }
    return Block(AttentionLayer(heads=sizes), tensors)


def key_size(*heads: Matrices) -> int:
    """Return the size to which the heads' queries and keys are padded."""
    return max(len(head.queries) for head in heads)


def _padded(matrix: Tensor, rows: int) -> Tensor:
    return torch.cat([matrix, zeros(rows - len(matrix), matrix.shape[1])])


def relu(matrix: Tensor, bias: Tensor | float = 0.0) -> Block:
    """Return a layer x ← ReLU(M x + b), M [O, I], b [O] or one number."""
    tensors = {"relu.weight": matrix, "relu.bias": _bias(bias, len(matrix))}
    return Block(ReluLayer(width=len(matrix)), tensors)


def linear(matrix: Tensor, bias: Tensor | float = 0.0) -> Block:
    """Return a layer x ← M x + b, M [O, I], b [O] or one number."""
    tensors = {"linear.weight": matrix, "linear.bias": _bias(bias, len(matrix))}
    return Block(LinearLayer(width=len(matrix)), tensors)


def _bias(bias: Tensor | float, size: int) -> Tensor:
    return bias if isinstance(bias, Tensor) else torch.full((size,), bias, dtype=torch.float64)


def picked_sum(width: int) -> tuple[Block, Block]:
    """Return layers for Σ ReLU(h − 1): from e_i + s to the number s_i.

    It holds that 0 ≤ s < 1, so only the i-th coordinate of h reaches one.
    """
    return relu(eye(width), -1.0), relu(ones(1, width))


def nearest_token(vocabulary: int) -> tuple[Tensor, Tensor]:
    """Return M [V, 1] and b [V] of logits that pick the token nearest to z.

    The logits (2v/V − 1) z + ¼ − (v/V)² are (z−½)² − (z−v/V)², largest for the token whose code
    v/V is nearest to z.
    """
    codes = torch.arange(vocabulary, dtype=torch.float64) / vocabulary
    return (2 * codes - 1).unsqueeze(1), 0.25 - codes**2


def assembled(
    embedding: Tensor, blocks: Sequence[Block], virtual: int, context: int, sharpness: float
) -> GeneratingBase:
    """Build a model in float64 from an embedding [V, d_e] and layers.

    Its decoder is `nearest_token`. `virtual` virtual tokens have the first positions, followed by
    up to `context` tokens; the softmax multiplies scores by `sharpness` β = T/√k.
    """
    vocabulary, width = embedding.shape
    sizes = [b.layer.heads[0].key_size for b in blocks if isinstance(b.layer, AttentionLayer)]
    assert len(set(sizes)) == 1  # one T serves all layers
    matrix, bias = nearest_token(vocabulary)
    weights = {"embed.weight": embedding, "unembed.weight": matrix, "unembed.bias": bias}
    for index, block in enumerate(blocks):
        weights |= {f"blocks.{index}.{name}": tensor for name, tensor in block.tensors.items()}
    family = Formal(
        width=width,
        stack=tuple(block.layer for block in blocks),
        inverse_temperature=sharpness * math.sqrt(sizes[0]),
        reserved_positions=virtual,
        vocabulary=vocabulary,
        context=context,
    )
    shapes = family.shape().tensors
    assert {name: shape.shape for name, shape in shapes.items()} == {
        name: tuple(tensor.shape) for name, tensor in weights.items()
    }
    return GeneratingBase(family, {name: tensor.unsqueeze(0) for name, tensor in weights.items()})


def zeros(rows: int, columns: int) -> Tensor:
    """Return a matrix of zeros in float64."""
    return torch.zeros(rows, columns, dtype=torch.float64)


def ones(rows: int, columns: int) -> Tensor:
    """Return a matrix of ones in float64."""
    return torch.ones(rows, columns, dtype=torch.float64)


def eye(size: int) -> Tensor:
    """Return the identity matrix in float64."""
    return torch.eye(size, dtype=torch.float64)


def beside(*parts: Tensor) -> Tensor:
    """Concatenate matrices along columns."""
    return torch.cat(parts, 1)
