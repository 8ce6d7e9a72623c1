"""One training step of the engine, as often as one likes."""

from collections.abc import Callable, Mapping

from torch import Tensor

from adaptlab.engine.allocate import allocate
from adaptlab.engine.model import Model
from adaptlab.engine.optim import AdamW
from adaptlab.engine.plan import Plan
from adaptlab.engine.train import batches, losses


def stepper(plan: Plan, base: Mapping[str, Tensor]) -> Callable[[], None]:
    """A function that takes one step on all replicates of the plan."""
    trainables = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype)
    model = Model(plan, base, trainables.tensors)
    optimiser = AdamW(trainables, plan.replicate_decays, 1.0)
    items = batches(plan)

    def step() -> None:
        total = losses(plan, model, next(items), 0).sum()
        optimiser.step(trainables.gradient(total), plan.replicate_rates)

    return step
