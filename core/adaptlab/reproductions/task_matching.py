"""Which tasks a choice with some of its knobs stands for."""

from collections.abc import Mapping, Sequence
from typing import cast

from adaptlab.specs.spec import Choice

TaskConfiguration = Mapping[str, object]
"""A task by name, with all of its knobs."""


def agrees(asked: Choice, task: TaskConfiguration) -> bool:
    """Return True if a task has every knob that is asked for; of inner tasks too."""
    return _within(asked.model_dump(mode="json"), task)


def _within(asked: object, found: object) -> bool:
    if isinstance(asked, dict) and isinstance(found, Mapping):
        wanted, there = cast("dict[str, object]", asked), cast("Mapping[str, object]", found)
        return all(key in there and _within(value, there[key]) for key, value in wanted.items())
    if isinstance(asked, list) and isinstance(found, list | tuple):
        parts, others = cast("list[object]", asked), cast("Sequence[object]", found)
        return len(parts) == len(others) and all(map(_within, parts, others))
    if isinstance(asked, str) and isinstance(found, Mapping):  # a bare name is short for {name: …}
        return cast("Mapping[str, object]", found).get("name") == asked
    return asked == found
