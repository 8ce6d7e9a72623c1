"""Answers of reversing."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.reverse import Reverse


@ENGINE_TASKS.register("reverse")
def answer(task: Reverse, inputs: Tensor, draws: Tensor) -> Tensor:
    """The input digits from last to first."""
    return inputs.flip(-1)
