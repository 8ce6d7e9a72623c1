"""Answers of the ascending sort."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.sort_ascending import SortAscending


@ENGINE_TASKS.register("sort_ascending")
def answer(task: SortAscending, inputs: Tensor, draws: Tensor) -> Tensor:
    """The input digits in ascending order."""
    return inputs.sort(-1).values
