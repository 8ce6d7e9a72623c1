"""MiSS: a narrow block repeated along the inputs of a matrix."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments, OutputHook, ProductHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.miss import Miss
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("miss")
def attach(method: Miss, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the block to every chosen site, or the change of its squares."""
    blocks = {s.name: tensors[f"{s.name}.block"] for s in method.chosen_sites(shape)}
    if method.bat:
        return Attachments(products={name: _squares(block) for name, block in blocks.items()})
    return Attachments(outputs={name: _repeated(block) for name, block in blocks.items()})


def _repeated(block: Tensor) -> OutputHook:
    """Return the hook of a block [R, r, O]."""
    rank = block.shape[1]

    def updated(x: Tensor, y: Tensor) -> Tensor:
        padded = functional.pad(x, (0, -x.shape[-1] % rank))
        sums = padded.unflatten(-1, (-1, rank)).sum(-2)  # R, ..., r
        return y + grouped.linear(sums, block.transpose(1, 2), None)

    return updated


def _squares(block: Tensor) -> ProductHook:
    """Return the hook of squares [R, n, r, r], one for each n rows of blocks."""
    count, rank = block.shape[1:3]

    def updated(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        wide = weight.shape[-1] // rank * rank
        whole = weight[:, : count * rank, :wide].unflatten(1, (count, rank))
        squares = grouped.lifted(whole, len(block)).unflatten(-1, (-1, rank))  # R, n, r, m, r
        change = torch.einsum("gnamb,gnbc->gnamc", squares, block) + block.unsqueeze(3)
        product = grouped.linear(x[..., :wide], change.flatten(3).flatten(1, 2), None)
        return y + functional.pad(product, (0, y.shape[-1] - product.shape[-1]))

    return updated
