"""The accuracy on a stored task that needs no skill."""

from collections.abc import Mapping

from adaptlab.errors import InvalidSpec
from adaptlab.plugins.task import TASKS
from adaptlab.specs.choices import configured
from adaptlab.specs.spec import Choice


def task_floor(document: Mapping[str, object]) -> float | None:
    """Return the better of guessing and the best constant answer to a task.

    The result is None if the task is not installed.
    """
    floors = task_floors(document)
    return None if floors is None else max(floors)


def task_floors(document: Mapping[str, object]) -> tuple[float, float] | None:
    """Return the accuracies of guessing and of the best constant answer.

    The result is None if the task is not installed.
    """
    try:
        choice = Choice.model_validate(document)
        task = configured(TASKS.get(choice.name, "/name"), choice, "")
    except InvalidSpec:
        return None
    return task.chance(), task.constant_answer()
