"""Dropout with masks from counters, independent of earlier draws."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.counter import constant, random_bits, stream
from adaptlab.engine.plan import Plan
from adaptlab.engine.tensors import Float, Int

_BITS = 63


@dataclass(frozen=True)
class TrainingStep:
    """The place of a forward pass in training; determines dropout masks.

    `seeds` are those of the replicates. `first_item` is the index in the step's batch of the first
    item passed, so that a batch can be divided.
    """

    step: Int[Tensor, ""]
    seeds: Int[Tensor, "R"]
    first_item: int = 0


def training_step(
    plan: Plan,
    step: int | Int[Tensor, ""],
    first_item: int = 0,
    seeds: Int[Tensor, "R"] | None = None,
) -> TrainingStep | None:
    """Return a step of training; None if part of the base is frozen.

    `seeds` default to those of all replicates of the plan. The paper trains with dropout in
    pretraining and full fine-tuning, and adapts without.
    """
    if not plan.shape.tensors.keys() <= plan.trained_shapes.keys():
        return None
    seeds = plan.replicate_seeds if seeds is None else seeds
    place = step if isinstance(step, Tensor) else constant(step, plan.device)
    return TrainingStep(place, seeds, first_item)


def dropped(
    x: Float[Tensor, "R B *H Q C"],
    rate: float,
    at: TrainingStep,
    name: str,
    length: int,
    rows: slice,
) -> Float[Tensor, "R B *H Q C"]:
    """Zero each value of x with probability `rate`; scale up the others.

    x holds the `rows` of `length` positions; a position's mask does not depend on which rows are
    computed. Replicates of one seed share masks.
    """
    shape = (*x.shape[2:-2], length, x.shape[-1])
    cells = torch.arange(math.prod(shape), device=x.device).view(shape)[..., rows, :]
    items = torch.arange(at.first_item, at.first_item + x.shape[1], device=x.device)
    wide = (1,) * cells.dim()
    bits = random_bits(
        constant(stream(f"dropout/{name}"), x.device),
        at.step,
        at.seeds.view(-1, 1, *wide),
        items.view(-1, *wide),
        cells,
    )
    return (x / (1 - rate)).masked_fill(bits < int(rate * 2**_BITS), 0.0)
