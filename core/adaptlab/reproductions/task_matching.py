"""Matching of tasks with a choice that gives only some of their knobs."""

from collections.abc import Mapping, Sequence
from typing import cast

from adaptlab.specs.spec import Choice

TaskConfiguration = Mapping[str, object]
"""A task by name, with all of its knobs."""


def agrees(wanted: Choice, task: TaskConfiguration) -> bool:
    """Return True if the task has every knob of `wanted`."""
    return _within(wanted.model_dump(mode="json"), task)


def _within(wanted: object, actual: object) -> bool:
    if isinstance(wanted, dict) and isinstance(actual, Mapping):
        knobs, settings = cast("dict[str, object]", wanted), cast("Mapping[str, object]", actual)
        return all(
            key in settings and _within(value, settings[key]) for key, value in knobs.items()
        )
    if isinstance(wanted, list) and isinstance(actual, list | tuple):
        parts, others = cast("list[object]", wanted), cast("Sequence[object]", actual)
        return len(parts) == len(others) and all(map(_within, parts, others))
    if isinstance(wanted, str) and isinstance(
        actual, Mapping
    ):  # a bare name is short for {name: …}
        return cast("Mapping[str, object]", actual).get("name") == wanted
    return wanted == actual
