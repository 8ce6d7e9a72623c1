"""LoRA: s · B A x added to matrix products; DoRA's learned row lengths.

A start from decomposed weights is subtracted, as part of an update of twice the rank.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments, OutputHook, ProductHook
from adaptlab.engine.plugins import ENGINE_FOLDS, ENGINE_METHODS
from adaptlab.methods.lora import Lora
from adaptlab.plugins.shapes import ModelShape, Site


@ENGINE_METHODS.register("lora")
def attach(method: Lora, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the low-rank update to every chosen site."""
    method, tensors = method.kept(), fold(method, shape, tensors)
    sites = method.chosen_sites(shape)
    if method.dora:
        return Attachments(products={site.name: _turned(method, site, tensors) for site in sites})
    return Attachments(outputs={site.name: _updated(method, site, tensors) for site in sites})


@ENGINE_FOLDS.register("lora")
def fold(method: Lora, shape: ModelShape, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the whole update: A above its start, 2 B beside −2 B of it.

    The factor of a site is divided by the rank, or its root, which is twice as high.
    """
    if not method.starts_from_weights:
        return dict(tensors)
    growth = 2 if method.scaling == "standard" else 2**0.5
    whole: dict[str, Tensor] = {}
    for site in method.chosen_sites(shape):
        a, b = tensors[f"{site.name}.a"], tensors[f"{site.name}.b"]
        start_a, start_b = (
            grouped.lifted(tensors[f"{site.name}.start.{part}"], len(a)).to(a) for part in "ab"
        )
        whole[f"{site.name}.a"] = torch.cat([a, start_a], 1)
        whole[f"{site.name}.b"] = growth * torch.cat([b, -start_b], 2)
    return whole


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
