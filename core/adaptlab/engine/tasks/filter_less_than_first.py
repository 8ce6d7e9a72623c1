"""Answers of the filter by the first digit."""

import torch
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.filter_less_than_first import FilterLessThanFirst


@ENGINE_TASKS.register("filter_less_than_first")
def answer(task: FilterLessThanFirst, inputs: Tensor, draws: Tensor) -> Tensor:
    """Return the input digits below the first, padded with end tokens."""
    kept = inputs < inputs[..., :1]
    order = torch.sort((~kept).to(torch.uint8), dim=-1, stable=True).indices
    return torch.where(kept, inputs, task.alphabet).gather(-1, order)
