"""Answers of the descending sort."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.sort_descending import SortDescending


@ENGINE_TASKS.register("sort_descending")
def answer(task: SortDescending, inputs: Tensor, draws: Tensor) -> Tensor:
    """The input digits in descending order."""
    return inputs.sort(-1, descending=True).values
