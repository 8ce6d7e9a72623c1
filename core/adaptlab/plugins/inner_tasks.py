"""Tasks inside the configuration of another task."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import SerializeAsAny, WrapValidator
from pydantic_core import PydanticCustomError

from adaptlab.errors import Problem
from adaptlab.plugins.nested import nested
from adaptlab.plugins.task import TASKS, DigitTask


def _inner(value: object, _: object) -> DigitTask:
    """Return a digit task from its name or configuration."""
    if isinstance(value, DigitTask):
        return value
    task = nested(TASKS, value)
    if isinstance(task, DigitTask):
        return task
    raise PydanticCustomError(
        "not_a_digit_task", "{task} is not made of digits", {"task": task.name}
    )


InnerTask = Annotated[
    SerializeAsAny[DigitTask],
    WrapValidator(_inner, json_schema_input_type=str | dict[str, object]),
]


def inner_problems(
    inner: Mapping[str, DigitTask], *, with_cues: bool = False
) -> tuple[Problem, ...]:
    """Return the errors of inner tasks, which must not be mixtures.

    They must not have cues either, unless `with_cues`.
    """
    problems: list[Problem] = []
    for pointer, task in inner.items():
        if len(task.parts()) > 1:
            detail = f"{task.name} mixes several tasks; name one of them here."
            problems.append(Problem(f"{pointer}/name", "nested_mixture", detail))
        elif task.cues() and not with_cues:
            detail = "A cue comes before a whole question. Name the inner task without its cue."
            problems.append(Problem(f"{pointer}/name", "nested_cue", detail))
        problems += [
            replace(problem, pointer=pointer + problem.pointer) for problem in task.problems()
        ]
    return tuple(problems)
