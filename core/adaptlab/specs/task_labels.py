"""Labels of tasks: that of the plug-in, or their name and dataset."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from adaptlab.errors import UnknownName
from adaptlab.plugins.task import TASKS, Task

LONGEST_VALUE = 40
"""Characters of a member that two tasks differ in; longer ones are cut."""


def records_label(task: Mapping[str, object]) -> str | None:
    """Return `text_classification of reviews`, or the task's own label.

    The result is None without records. The task is as it was given or resolved.
    """
    plugin = task_class(task)
    if plugin is not None and (own := plugin.own_label(task)) is not None:
        return own
    if not _reads_records(task) or (name := _dataset(task)) is None:
        return None
    return f"{task['name']} of {name}"


def label_among(task: Mapping[str, object], others: Sequence[Mapping[str, object]]) -> str | None:
    """Return the label of a task on records, with what differs from others.

    Only others of the same name and dataset count. None for a task without records.
    """
    label = records_label(task)
    if label is None:
        return None
    alike = [other for other in others if records_label(other) == label]
    names = dict.fromkeys(name for one in (task, *alike) for name in one)
    differing = [
        f"{name}={_shown(name, task)}"
        for name in names
        if any(other.get(name) != task.get(name) for other in alike)
    ]
    return f"{label} ({', '.join(differing)})" if differing else label


def numbered(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels, with their places where two are equal."""
    return tuple(
        f"{label}, task {place}" if label in labels[: place - 1] else label
        for place, label in enumerate(labels, start=1)
    )


def task_class(task: Mapping[str, object]) -> type[Task] | None:
    """Return the plug-in of a task, None if it is not installed."""
    try:
        return TASKS.get(str(task.get("name")))
    except UnknownName:
        return None


def _reads_records(task: Mapping[str, object]) -> bool:
    """Return True for a task on records.

    Without its plug-in, one is known by its prompts or messages.
    """
    if "prompt" in task or "messages" in task:
        return True
    plugin = task_class(task)
    return plugin is not None and plugin.needs_records


def _dataset(task: Mapping[str, object]) -> object:
    dataset = task.get("dataset")
    return dataset if dataset is None or isinstance(dataset, str) else _members(dataset)["name"]


def _members(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value)


def _shown(name: str, task: Mapping[str, object]) -> str:
    if name not in task:
        return "default"
    value = task[name]
    if name == "dataset" and not isinstance(value, str):
        value = _members(value)["digest"]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.replace('"', "").split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
