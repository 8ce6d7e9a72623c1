"""SHiRA: sparse changes of weight matrices."""

from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.kernels.counter import constant, random_bits, stream
from adaptlab.engine.models.attachments import Attachments, OutputHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.shira import Shira
from adaptlab.plugins.shapes import ModelShape, Site


@ENGINE_METHODS.register("shira")
def attach(method: Shira, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the sparse changes to every chosen site."""
    sites = method.chosen_sites(shape)
    return Attachments(outputs={s.name: _changed(method, s, tensors) for s in sites})


@lru_cache(maxsize=1024)  # once per trainer and site
def places(seed: int, site: Site, entries: int, device: torch.device) -> Tensor:
    """Return the flat places [entries] of a matrix [O, I], in ascending order."""
    index = torch.arange(site.inputs * site.outputs, device=device)
    draws = random_bits(constant(stream(site.name), device), constant(seed, device), index)
    return draws.topk(entries, largest=False).indices.sort().values


def _changed(method: Shira, site: Site, tensors: Mapping[str, Tensor]) -> OutputHook:
    """Return the hook of values [R, n]."""
    values = tensors[f"{site.name}.values"]
    where = places(method.mask_seed, site, values.shape[1], values.device)

    def changed(x: Tensor, y: Tensor) -> Tensor:
        zeros = values.new_zeros(len(values), site.outputs * site.inputs)
        sparse = zeros.scatter(1, where.expand(len(values), -1), values)
        return y + grouped.linear(x, sparse.unflatten(1, (site.outputs, site.inputs)), None)

    return changed
