"""C3A: block-circulant changes, as whole matrices."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments, OutputHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.c3a import C3a
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("c3a")
def attach(method: C3a, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the circulant blocks to every chosen site."""
    sites = method.chosen_sites(shape)
    hooks = {s.name: _changed(tensors[f"{s.name}.kernel"], s.inputs) for s in sites}
    return Attachments(outputs=hooks)


def circulant(kernel: Tensor) -> Tensor:
    """Return the matrices [R, n·b, m·b] of kernels [R, n, m, b].

    The entry (i, j) of a block is the kernel's at j − i, modulo b.
    """
    place = torch.arange(kernel.shape[-1], device=kernel.device)
    entries = kernel[..., (place - place.unsqueeze(1)) % len(place)]  # R, n, m, b, b
    return entries.transpose(2, 3).flatten(3).flatten(1, 2)


def _changed(kernel: Tensor, inputs: int) -> OutputHook:
    """Return the hook of kernels [R, n, m, b]."""
    wide = kernel.shape[2] * kernel.shape[3]

    def changed(x: Tensor, y: Tensor) -> Tensor:
        product = grouped.linear(x[..., :wide] / inputs, circulant(kernel), None)
        return y + functional.pad(product, (0, y.shape[-1] - product.shape[-1]))

    return changed
