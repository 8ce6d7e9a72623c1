"""Answers and cues of cued tasks."""

from torch import Tensor

from adaptlab.engine.items.digits import answer_to
from adaptlab.engine.items.items import counted_targets
from adaptlab.engine.plugins import ENGINE_CUES, ENGINE_MASKS, ENGINE_TASKS
from adaptlab.tasks.cued import Cued


@ENGINE_TASKS.register("cued")
def answer(task: Cued, inputs: Tensor, draws: Tensor) -> Tensor:
    """Return the answer of the task to the question alone."""
    return answer_to(task.task, inputs, draws)


@ENGINE_MASKS.register("cued")
def counted(task: Cued, targets: Tensor, draws: Tensor) -> Tensor | None:
    """Return the targets that the task counts."""
    return counted_targets(task.task, targets, draws)


@ENGINE_CUES.register("cued")
def cue(task: Cued, draws: Tensor) -> Tensor:
    """Return the task's cue for every item."""
    return draws.new_full((*draws.shape, 1), task.cue)
