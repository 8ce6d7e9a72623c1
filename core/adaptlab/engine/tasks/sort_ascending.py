"""Answers of the ascending sort."""

import torch
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.sort_ascending import SortAscending


@ENGINE_TASKS.register("sort_ascending")
def answer(task: SortAscending, inputs: Tensor) -> Tensor:
    """The input digits in ascending order."""
    return torch.sort(inputs, dim=-1).values
