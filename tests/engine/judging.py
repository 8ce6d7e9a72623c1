"""The mask of correct answers to items."""

from torch import Tensor

from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models.model import Model
from adaptlab.plugins.task import Task
from adaptlab.runs.events import Split


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
