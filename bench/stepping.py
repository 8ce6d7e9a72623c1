"""One training step of the engine, and its time beside another's."""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from adaptlab.engine.models.plan import Plan
from adaptlab.engine.models.step_threads import Lanes
from adaptlab.engine.training.allocate import allocate
from adaptlab.engine.training.descent import Descent
from adaptlab.engine.training.train import batches
from bench.figures import Figure, alternating, middle_ratio, spread

ROUNDS = 9


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


def row(
    work: str,
    ours: Callable[[], None],
    replicates: int,
    theirs: Callable[[], None],
    target: str,
    compared: str = "transformers and peft, one after the other",
    theirs_replicates: int = 1,
    steps: int = 1,
) -> Figure:
    """Return the milliseconds per replicate of two steps, taken in turn.

    What only the first step does is not measured.
    """
    ours()
    theirs()
    mine, others = alternating(
        lambda: milliseconds(ours, steps) / replicates,
        lambda: milliseconds(theirs, steps) / theirs_replicates,
        ROUNDS,
    )
    return Figure(
        work,
        f"{compared}: {spread(others, 'ms')}",
        f"{spread(mine, 'ms')}: {middle_ratio(others, mine):.2f} ×",
        target,
    )
