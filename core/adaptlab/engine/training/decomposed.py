"""Parts of decompositions of base matrices, and companions of methods."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.tensors import Float
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape, TensorShape

SINGULAR = ("singular_rows", "singular_columns")
COLUMNS = ("singular_columns", "orthonormal_columns")
DECOMPOSED = (*SINGULAR, "triangular_rows", "orthonormal_columns")


class Decompositions:
    """Parts of decompositions of base matrices [G, O, I].

    The factors of the latest matrix are kept, because A and B of a site are of one.
    """

    def __init__(self, bases: Mapping[str, Tensor]) -> None:
        self._bases = bases
        self._latest: tuple[str, bool] | None = None
        self._factors: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def part(self, shape: TensorShape) -> Float[Tensor, "G *shape"]:
        """Return the first rows [r, I] or columns [O, r]; see `Initialiser`.

        Signs of singular vectors are arbitrary, but equal for all tensors of one matrix, whose
        product they leave as it is.
        """
        start, (rows, columns) = shape.initialiser, shape.shape
        left, *values, right = self._of(start.source, start.kind in SINGULAR)
        if values:
            roots = (values[0] / start.scale).sqrt()
            left, right = left * roots.unsqueeze(-2), roots.unsqueeze(-1) * right
        return left[..., :columns] if start.kind in COLUMNS else right[..., :rows, :]

    def _of(self, source: str, is_singular: bool) -> tuple[Tensor, ...]:
        if self._latest != (source, is_singular):
            matrix = self._bases[source]
            self._factors = (
                torch.linalg.svd(matrix, full_matrices=False)
                if is_singular
                else torch.linalg.qr(matrix)
            )
            self._latest = source, is_singular
        return self._factors


def companions_of(
    method: Method, shape: ModelShape, base: Mapping[str, Float[Tensor, "G ..."]]
) -> dict[str, Float[Tensor, "G ..."]]:
    """Return the frozen companions of a method, by name."""
    decompositions = Decompositions(base)
    return {
        name: base[tensor.initialiser.source]
        if tensor.initialiser.kind == "base"
        else decompositions.part(tensor)
        for name, tensor in method.companions(shape).items()
    }
