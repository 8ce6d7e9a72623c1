"""One training step of the engine, repeatable, and its time."""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from adaptlab.engine.allocate import allocate
from adaptlab.engine.descent import Descent
from adaptlab.engine.lanes import Lanes
from adaptlab.engine.plan import Plan
from adaptlab.engine.train import batches


def stepper(
    plan: Plan, base: Mapping[str, Tensor], *, recomputes: bool = False, lanes: bool = True
) -> Callable[[], None]:
    """Return a function that takes a training step of all replicates.

    With `recomputes`, blocks are computed again in the backward pass. Without `lanes`, all threads
    share every product.
    """
    trainables = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype)
    descent = Descent(plan, base, trainables, None)
    descent.recomputes = recomputes
    if not lanes:
        descent.lanes = Lanes(torch.get_num_threads(), most=1)
    items = batches(plan)

    def step() -> None:
        descent.step(next(items), 0)

    return step


def milliseconds(work: Callable[[], object], times: int = 1) -> float:
    """Return the mean time of `work`, a GPU's part included."""
    begin = time.perf_counter()
    for _ in range(times):
        work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / times
