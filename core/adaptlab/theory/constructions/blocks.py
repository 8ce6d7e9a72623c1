"""Layers of the family `formal` with their matrices, and models put together from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.families.formal import AttentionLayer, Formal, Head, Layer, LinearLayer, ReluLayer
from adaptlab.theory.generation import Base


@dataclass(frozen=True)
class Block:
    """A layer and its tensors, by the end of their names."""

    layer: Layer
    tensors: dict[str, Tensor]


@dataclass(frozen=True)
class Matrices:
    """What one head multiplies by: queries and keys [k, C], values [O, C]."""

    queries: Tensor
    keys: Tensor
    values: Tensor


def attention(*heads: Matrices) -> Block:
    """An attention layer whose heads are padded with rows of zeros to one key size.

    So every head divides its scores by the same √k, and scores of 0 and 1 stay as they are.
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
    """The size of queries and keys that the heads are padded to."""
    return max(len(head.queries) for head in heads)


def _padded(matrix: Tensor, rows: int) -> Tensor:
    return torch.cat([matrix, zeros(rows - len(matrix), matrix.shape[1])])


def relu(matrix: Tensor, bias: Tensor | float = 0.0) -> Block:
    """X ← ReLU(M x + b) for M [O, I] and b [O], or the same b for all outputs."""
    tensors = {"relu.weight": matrix, "relu.bias": _bias(bias, len(matrix))}
    return Block(ReluLayer(width=len(matrix)), tensors)


def linear(matrix: Tensor, bias: Tensor | float = 0.0) -> Block:
    """X ← M x + b for M [O, I] and b [O], or the same b for all outputs."""
    tensors = {"linear.weight": matrix, "linear.bias": _bias(bias, len(matrix))}
    return Block(LinearLayer(width=len(matrix)), tensors)


def _bias(bias: Tensor | float, size: int) -> Tensor:
    return bias if isinstance(bias, Tensor) else torch.full((size,), bias, dtype=torch.float64)


def picked_sum(width: int) -> tuple[Block, Block]:
    """ReLU(h − 1) and the sum of it: from e_i + s with 0 ≤ s < 1 to the number s_i.

    Of the coordinates of h only the i-th reaches one.
    """
    return relu(eye(width), -1.0), relu(ones(1, width))


def nearest_token(vocabulary: int) -> tuple[Tensor, Tensor]:
    """M [V, 1] and b [V] of the logits (2v/V − 1) z + ¼ − (v/V)², which are (z−½)² − (z−v/V)².

    Their largest is that of the token whose code v/V is nearest to z.
    """
    codes = torch.arange(vocabulary, dtype=torch.float64) / vocabulary
    return (2 * codes - 1).unsqueeze(1), 0.25 - codes**2


def assembled(
    embedding: Tensor, blocks: Sequence[Block], virtual: int, context: int, sharpness: float
) -> Base:
    """The model, in float64, with an embedding [V, d_e], layers and the decoder `nearest_token`.

    `virtual` virtual tokens stand at the first positions and up to `context` tokens after them;
    `sharpness` β = T/√k is what scores are multiplied by in the softmax.
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
    assert {name: each.shape for name, each in shapes.items()} == {
        name: tuple(tensor.shape) for name, tensor in weights.items()
    }
    return Base(family, {name: tensor.unsqueeze(0) for name, tensor in weights.items()})


def zeros(rows: int, columns: int) -> Tensor:
    """A matrix of zeros in float64."""
    return torch.zeros(rows, columns, dtype=torch.float64)


def ones(rows: int, columns: int) -> Tensor:
    """A matrix of ones in float64."""
    return torch.ones(rows, columns, dtype=torch.float64)


def eye(size: int) -> Tensor:
    """The identity in float64."""
    return torch.eye(size, dtype=torch.float64)


def beside(*parts: Tensor) -> Tensor:
    """The matrices next to each other."""
    return torch.cat(parts, 1)
