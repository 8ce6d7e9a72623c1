"""The mask of correct answers to items."""

from torch import Tensor

from adaptlab.engine.evaluate import judged
from adaptlab.engine.model import Model
from adaptlab.measurements.results import Split
from adaptlab.plugins.task import Task


def outcomes(
    model: Model,
    task: Task,
    split: Split,
    samples: int,
    replicates: int,
    *,
    attached: bool = True,
) -> Tensor:
    """Return the mask [R, N] of correct answers."""
    answers = judged(model, task, split, samples, replicates, attached=attached, with_loss=False)
    return answers.right
