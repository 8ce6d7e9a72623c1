"""The speed of a machine's matrix products, measured when a run begins.

Estimates of time start from it. A CPU without units for bfloat16 converts every number, and takes
many times as long as in float32, so the ratio is measured before bfloat16 is chosen.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.kernels.rounding import AMPERE
from adaptlab.engine.models.plan import Plan
from adaptlab.running.meter import Clock
from adaptlab.specs.resolved import ResolvedTheory
from adaptlab.specs.spec import Precision

LARGEST_SIDE, MOST_ROWS = 512, 128
"""Limits on the measured product, which then takes milliseconds in float32."""
ROUNDS = 5
CLEARLY_SLOWER = 2.0
"""The ratio from which one round is enough."""
WORTHWHILE = 0.9
"""The ratio below which `auto` chooses bfloat16; the rest of a step gains less than products."""


@dataclass(frozen=True)
class ProductSpeed:
    """The speed of products.

    Attributes:
        gflops: billions of operations per second in float32.
        bfloat16_cost: the time of a product in bfloat16 divided by that in float32.
    """

    gflops: float
    bfloat16_cost: float


def product_speed(plan: Plan, clock: Clock | None) -> ProductSpeed | None:
    """Return the speed of a product of a model.

    The product is one of a model's step: the largest matrix of its blocks, with the tokens of a
    batch, up to limits. None on a GPU, for theory checks and without a clock, where nothing is
    measured.
    """
    if clock is None or plan.device.type == "cuda" or isinstance(plan.spec, ResolvedTheory):
        return None
    sites = [site for site in plan.shape.linear_sites if site.layer is not None]
    largest = max(sites, key=lambda site: site.inputs * site.outputs, default=None)
    inputs, outputs = (LARGEST_SIDE,) * 2 if largest is None else (largest.inputs, largest.outputs)
    training = plan.spec.training
    rows = MOST_ROWS if training is None else training.batch_size * plan.task.sequence_length()
    sizes = min(rows, MOST_ROWS), min(inputs, LARGEST_SIDE), min(outputs, LARGEST_SIDE)
    return _measured(*sizes, clock)


def chosen_precision(plan: Plan, speed: ProductSpeed | None) -> Precision:
    """Return the precision that `auto` stands for on the plan's device.

    It is bfloat16 on a GPU with units for it, and on a CPU that was measured to be faster in it.
    """
    if plan.spec.precision != "auto":
        return plan.spec.precision
    if plan.device.type == "cuda":
        has_units = torch.cuda.get_device_capability(plan.device) >= AMPERE
        return "bfloat16" if has_units else "float32"
    return "bfloat16" if speed is not None and speed.bfloat16_cost < WORTHWHILE else "float32"


@lru_cache(maxsize=64)  # once per trainer and size
def _measured(rows: int, inputs: int, outputs: int, clock: Clock) -> ProductSpeed:
    x, matrix = torch.ones(rows, inputs), torch.ones(outputs, inputs)
    low = x.bfloat16(), matrix.bfloat16()
    _seconds(x, matrix, clock)  # the first product also sets the library up
    _seconds(*low, clock)
    ratio = 0.0
    exact = rounded = float("inf")
    for _ in range(ROUNDS):  # alternating, so that a busy machine slows both
        exact = min(exact, _seconds(x, matrix, clock))
        rounded = min(rounded, _seconds(*low, clock))
        ratio = rounded / exact if exact else 1.0  # too fast for the clock
        if ratio > CLEARLY_SLOWER:
            break
    operations = 4 * rows * inputs * outputs  # of the product and of its input's gradient
    return ProductSpeed(operations / max(exact, 1e-9) / 1e9, ratio)


def _seconds(x: Tensor, matrix: Tensor, clock: Clock) -> float:
    """Return the time of a product and of the gradient of its input.

    They are computed as in a step, by compiled kernels where there are some.
    """
    rows, weight = x.unsqueeze(0).requires_grad_(), matrix.unsqueeze(0)
    begin = clock()
    product = grouped.linear(rows, weight, None)
    torch.autograd.grad(product, rows, product)
    return clock() - begin
