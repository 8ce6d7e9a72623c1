"""Parts of decompositions of base matrices, and companions of methods."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.tensors import Float
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape, TensorShape

DECOMPOSED = ("singular_rows", "singular_columns", "triangular_rows", "orthonormal_columns")


@torch.no_grad()
def decomposed(shape: TensorShape, source: Float[Tensor, "G O I"]) -> Float[Tensor, "G *shape"]:
    """Return the first rows [r, I] or columns [O, r] of a decomposition.

    See `Initialiser`. Signs of singular vectors are arbitrary, but equal for all tensors of one
    matrix, whose product they leave as it is.
    """
    start, (rows, columns) = shape.initialiser, shape.shape
    if start.kind in ("singular_rows", "singular_columns"):
        left, values, right = torch.linalg.svd(source, full_matrices=False)
        roots = (values / start.scale).sqrt()
        left, right = left * roots.unsqueeze(-2), roots.unsqueeze(-1) * right
    else:
        left, right = torch.linalg.qr(source)
    is_left = start.kind in ("singular_columns", "orthonormal_columns")
    return left[..., :columns] if is_left else right[..., :rows, :]


def companions_of(
    method: Method, shape: ModelShape, base: Mapping[str, Float[Tensor, "G ..."]]
) -> dict[str, Float[Tensor, "G ..."]]:
    """Return the frozen companions of a method, by name."""
    found: dict[str, Tensor] = {}
    for name, tensor in method.companions(shape).items():
        source = base[tensor.initialiser.source]
        found[name] = source if tensor.initialiser.kind == "base" else decomposed(tensor, source)
    return found
