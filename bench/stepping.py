"""One training step of the engine, repeatable, and its time."""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from adaptlab.engine.allocate import allocate
from adaptlab.engine.optim import AdamW
from adaptlab.engine.passes import passes
from adaptlab.engine.plan import Plan
from adaptlab.engine.train import batches


def stepper(plan: Plan, base: Mapping[str, Tensor]) -> Callable[[], None]:
    """Return a function that takes one step on all replicates."""
    trainables = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype)
    everyone = range(plan.replicates)
    (one,) = passes(plan, base, everyone, trainables.flat, trainables.decays, plan.replicates)
    optimiser = AdamW(trainables, plan.replicate_decays, 1.0)
    items = batches(plan)

    def step() -> None:
        gradient, _ = one.gradient(next(items), 0, 1)
        optimiser.step(gradient, plan.replicate_rates)

    return step


def milliseconds(work: Callable[[], object], times: int = 1) -> float:
    """Return the mean time of `work`, a GPU's part included."""
    begin = time.perf_counter()
    for _ in range(times):
        work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / times
