"""Answers of copying."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.copy import Copy


@ENGINE_TASKS.register("copy")
def answer(task: Copy, inputs: Tensor, draws: Tensor) -> Tensor:
    """The input digits."""
    return inputs
