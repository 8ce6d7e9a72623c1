"""Answers of the remainder after division by the first digit."""

import torch
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.modulo import Modulo


@ENGINE_TASKS.register("modulo")
def answer(task: Modulo, inputs: Tensor, draws: Tensor) -> Tensor:
    """Return every digit modulo the first, unchanged if that is 0."""
    first = inputs[..., :1]
    return inputs % torch.where(first == 0, task.alphabet, first)
