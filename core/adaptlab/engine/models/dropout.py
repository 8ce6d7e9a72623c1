"""Dropout with masks from counters, independent of earlier draws."""

from dataclasses import dataclass

from torch import Tensor

from adaptlab.engine.kernels.counter import constant, stream
from adaptlab.engine.kernels.dropout_masks import Masks
from adaptlab.engine.kernels.fused_dropout import fused_dropout
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.tensors import Float, Int


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
    masks = masks_of(rate, at, name, length, rows)
    fused = fused_dropout(x, masks)
    return masks.applied(x) if fused is None else fused


def masks_of(rate: float, at: TrainingStep, name: str, length: int, rows: slice) -> Masks:
    """Return the masks of the rows of a site; see `dropped`."""
    draws = stream(f"dropout/{name}")
    return Masks(rate, draws, at.step, at.seeds, at.first_item, length, rows)
