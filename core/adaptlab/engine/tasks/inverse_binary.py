"""Answers of binary inversion."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.inverse_binary import InverseBinary


@ENGINE_TASKS.register("inverse_binary")
def answer(task: InverseBinary, inputs: Tensor, draws: Tensor) -> Tensor:
    """Return every input digit counted from the other end of the alphabet."""
    return task.alphabet - 1 - inputs
