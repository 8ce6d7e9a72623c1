"""Answers of the ascending sort with a constant added."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.sort_then_add import SortThenAdd


@ENGINE_TASKS.register("sort_then_add")
def answer(task: SortThenAdd, inputs: Tensor, draws: Tensor) -> Tensor:
    """The input digits in ascending order, each plus k."""
    return inputs.sort(-1).values + task.k
