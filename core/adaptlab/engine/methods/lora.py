"""LoRA: s · B A x added to matrix products; DoRA's learned row lengths."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments, OutputHook, ProductHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.lora import Lora
from adaptlab.plugins.shapes import ModelShape, Site


@ENGINE_METHODS.register("lora")
def attach(method: Lora, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the low-rank update to every chosen site."""
    sites = method.chosen_sites(shape)
    if method.dora:
        return Attachments(products={site.name: _turned(method, site, tensors) for site in sites})
    return Attachments(outputs={site.name: _updated(method, site, tensors) for site in sites})


def _updated(method: Lora, site: Site, tensors: Mapping[str, Tensor]) -> OutputHook:
    a, b, scale = tensors[f"{site.name}.a"], tensors[f"{site.name}.b"], method.scale_at(site)

    def updated(x: Tensor, y: Tensor) -> Tensor:
        return y + grouped.linear(scale * grouped.linear(x, a, None), b, None)  # r is few

    return updated


def _turned(method: Lora, site: Site, tensors: Mapping[str, Tensor]) -> ProductHook:
    update, scale = _updated(method, site, tensors), method.scale_at(site)
    a, b, magnitude = (tensors[f"{site.name}.{part}"] for part in ("a", "b", "magnitude"))

    def turned(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        return grouped.scale(update(x, y), magnitude / _row_norms(weight, a, b, scale))

    return turned


@torch.no_grad()  # the norm counts as a constant in the gradient: DoRA, section 4.3
def _row_norms(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Return the row lengths [R, O] of W + s B A.

    W is [G, O, I], A [R, r, I], B [R, O, r].

    ‖w + s b A‖² = ‖w‖² + 2 s b · (A w) + s² b (A Aᵀ) bᵀ, so no [R, O, I] is allocated.
    """
    own = weight.square().sum(-1).repeat_interleave(len(a) // len(weight), 0)
    crossed = grouped.linear(a, weight, None).transpose(1, 2)  # R, O, r
    added = b @ (a @ a.transpose(1, 2))  # R, O, r
    squares = own + (b * (2 * scale * crossed + scale**2 * added)).sum(-1)
    return squares.clamp_min(torch.finfo(squares.dtype).tiny).sqrt()
