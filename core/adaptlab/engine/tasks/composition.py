"""Answers of one task after another."""

from torch import Tensor

from adaptlab.engine.items.digits import answer_to
from adaptlab.engine.items.items import counted_targets
from adaptlab.engine.plugins import ENGINE_MASKS, ENGINE_TASKS
from adaptlab.tasks.composition import Composition


@ENGINE_TASKS.register("composition")
def answer(task: Composition, inputs: Tensor, draws: Tensor) -> Tensor:
    """The answer of the second task to the answer of the first."""
    return answer_to(task.then, answer_to(task.first, inputs, draws), draws)


@ENGINE_MASKS.register("composition")
def counted(task: Composition, targets: Tensor, draws: Tensor) -> Tensor | None:
    """Return the targets that the second task counts."""
    return counted_targets(task.then, targets, draws)
