"""VeRA: frozen random matrices with learned scales."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.kernels.counter import constant, stream, uniform
from adaptlab.engine.models.attachments import Attachments, OutputHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.vera import Vera
from adaptlab.plugins.shapes import ModelShape


class Projections(NamedTuple):
    """The matrices A [1, r, I] and B [1, O, r] that all sites share."""

    a: Tensor
    b: Tensor


@ENGINE_METHODS.register("vera")
def attach(method: Vera, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the scaled random update to every chosen site."""
    shared, sites = projections(method, shape), method.chosen_sites(shape)
    hooks = {s.name: _updated(*_cut(shared, s.inputs, s.outputs), s.name, tensors) for s in sites}
    return Attachments(outputs=hooks)


def projections(method: Vera, shape: ModelShape) -> Projections:
    """Return the matrices of the largest chosen inputs and outputs.

    They are uniform with the variance 2/fan-in of He et al. (2015), as in PEFT.
    """
    sites = method.chosen_sites(shape)
    assert isinstance(method.rank, int)
    inputs = max((site.inputs for site in sites), default=1)
    outputs = max((site.outputs for site in sites), default=1)
    return _drawn(method.projection_seed, method.rank, inputs, outputs)


@lru_cache(maxsize=16)
def _drawn(seed: int, rank: int, inputs: int, outputs: int) -> Projections:
    return Projections(_matrix("a", seed, rank, inputs), _matrix("b", seed, outputs, rank))


def _matrix(name: str, seed: int, rows: int, columns: int) -> Tensor:
    cpu = torch.device("cpu")
    counters = constant(stream(f"vera.{name}"), cpu), constant(seed, cpu)
    row, column = torch.arange(rows).unsqueeze(1), torch.arange(columns)
    return ((2 * uniform(*counters, row, column) - 1) * (6 / columns) ** 0.5).unsqueeze(0)


def _cut(shared: Projections, inputs: int, outputs: int) -> Projections:
    return Projections(shared.a[..., :inputs], shared.b[:, :outputs])


def _updated(a: Tensor, b: Tensor, name: str, tensors: Mapping[str, Tensor]) -> OutputHook:
    """Return the hook of scales [R, O] and [R, r]."""
    of_outputs, of_ranks = tensors[f"{name}.b"], tensors[f"{name}.d"]

    def updated(x: Tensor, y: Tensor) -> Tensor:
        own_a, own_b = a.to(x), b.to(x)
        inner = grouped.scale(grouped.linear(x, own_a, None), of_ranks)
        return y + grouped.scale(grouped.linear(inner, own_b, None), of_outputs)

    return updated
