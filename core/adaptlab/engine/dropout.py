"""Dropout whose every draw is decided by its counters and so never depends on what ran before."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.counter import random_bits, stream
from adaptlab.engine.plan import Plan

_BITS = 63


@dataclass(frozen=True)
class TrainingStep:
    """Where in training a forward pass stands, which decides what is dropped in it.

    `step` is a whole number on the device, `seeds` [R] the seed of every replicate, `first_item`
    the place in the step's batch of the first item passed, so that a batch can go in parts.
    """

    step: Tensor
    seeds: Tensor
    first_item: int = 0


def training_step(
    plan: Plan, step: int, first_item: int = 0, seeds: Tensor | None = None
) -> TrainingStep | None:
    """A step of training, or None where nothing is dropped because part of the base is frozen.

    Of all replicates of the plan, or of those whose `seeds` [R] are given. The paper trains
    with dropout in pretraining and full fine-tuning and adapts without.
    """
    if not plan.shape.tensors.keys() <= plan.trained_shapes.keys():
        return None
    seeds = plan.replicate_seeds if seeds is None else seeds
    return TrainingStep(torch.tensor(step, device=plan.device), seeds, first_item)


def dropped(
    x: Tensor, rate: float, at: TrainingStep, name: str, length: int, rows: slice
) -> Tensor:
    """Zero each value of x [R, B, ..., Q, C] with probability `rate` and scale the others up.

    x holds the `rows` of `length` positions, and a position's draws are the same whichever rows
    are computed. Replicates of one seed draw alike.
    """
    shape = (*x.shape[2:-2], length, x.shape[-1])
    cells = torch.arange(math.prod(shape), device=x.device).view(shape)[..., rows, :]
    items = torch.arange(at.first_item, at.first_item + x.shape[1], device=x.device)
    wide = (1,) * cells.dim()
    bits = random_bits(
        torch.tensor(stream(f"dropout/{name}"), device=x.device),
        at.step,
        at.seeds.view(-1, 1, *wide),
        items.view(-1, *wide),
        cells,
    )
    return torch.where(bits >= int(rate * 2**_BITS), x / (1 - rate), 0.0)
