"""Answers of the descending sort."""

import torch
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.sort_descending import SortDescending


@ENGINE_TASKS.register("sort_descending")
def answer(task: SortDescending, inputs: Tensor) -> Tensor:
    """The input digits in descending order."""
    return torch.sort(inputs, dim=-1, descending=True).values
