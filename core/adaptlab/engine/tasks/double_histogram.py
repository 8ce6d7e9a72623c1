"""Answers of the double histogram."""

from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.double_histogram import DoubleHistogram


@ENGINE_TASKS.register("double_histogram")
def answer(task: DoubleHistogram, inputs: Tensor, draws: Tensor) -> Tensor:
    """Count for every input digit its occurrences in the input."""
    return (inputs.unsqueeze(-1) == inputs.unsqueeze(-2)).sum(-1)
