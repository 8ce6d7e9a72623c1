"""Task files and groups of the harness, and files of a team's own.

The harness's index of all tasks takes 17 s, so only the folder of a task is read.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from adaptlab.records.task_groups import MOST_MEMBERS, GroupMetric
from adaptlab_client.machine.benchmark_generation import NotRendered
from adaptlab_client.machine.own_benchmark import is_own, settings_of_file

PACKAGE = "lm-eval"
VERSION = "0.4.13"
"""The version whose prompts and tasks are tested."""
_KEY = r"^[\"']?{}[\"']?:\s*[\"']?([^\s\"'#]+)[\"']?\s*$"
_TASK = re.compile(_KEY.format("task"), re.MULTILINE)
_GROUP = re.compile(_KEY.format("group"), re.MULTILINE)
_TAGS = re.compile(r"^[\"']?tag[\"']?:((?:\s*-?[ \t]*[\"']?[\w.-]+[\"']?[ \t]*$)+)", re.MULTILINE)

Settings = Mapping[str, Any]  # Any: the members of all task files


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task before its documents are read.

    Attributes:
        name: its name.
        settings: its members; functions of the harness are still names.
        load: returns the harness's task, with some members changed.
        is_own: true if it is a team's own, whose templates are rendered in a sandbox.
    """

    name: str
    settings: Settings
    load: Callable[[Settings], Any]  # Any: a library without types
    is_own: bool = False


def harness() -> Any:
    """Return the module of the harness's tasks.

    Raises:
        NotRendered: it is missing, or another version.
    """
    advice = f"Install adaptlab[benchmarks], which brings {PACKAGE} {VERSION}."
    try:
        tasks = import_module("lm_eval.tasks")
    except ImportError as error:
        raise NotRendered(f"The package {PACKAGE} is not installed. {advice}") from error
    if (here := version(PACKAGE)) != VERSION:
        raise NotRendered(f"{PACKAGE} {here} may write other prompts than {VERSION}. {advice}")
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    return tasks


def task_file(task: str) -> TaskFile:
    """Return a task by its name in the harness, or by a file of one's own.

    Raises:
        NotRendered: there is none, or the file is not one that is rendered here.
    """
    tasks = harness()
    root = Path(tasks.__file__).parent
    if is_own(task):
        return _own_file(root, Path(task))
    if (path := _files(root, _TASK).get(task)) is None:
        raise NotRendered(
            f"{PACKAGE} {VERSION} has no task {task!r} of its own. Name a task, such as hellaswag, "
            "a group, such as mmlu, or a file that ends in .yaml."
        )
    manager = tasks.TaskManager(include_path=str(path.parent), include_defaults=False)
    settings = json.loads(json.dumps(manager.task_index[task].cfg, default=str))
    settings = json.loads(json.dumps(settings).replace(f"{root}/", ""))
    return TaskFile(task, settings, partial(_loaded, manager, task))


def subtasks(name: str) -> tuple[str, ...]:
    """Return the tasks of a group or a tag of the harness, in order.

    The result is empty for a task.

    Raises:
        NotRendered: the group changes its tasks, or has too many.
    """
    tasks = harness()
    root = Path(tasks.__file__).parent
    if is_own(name) or name in _files(root, _TASK):
        return ()
    found = tuple(dict.fromkeys(_members(tasks, root, name)))
    if len(found) > MOST_MEMBERS:
        raise NotRendered(
            f"{name} has {len(found)} tasks, and {MOST_MEMBERS} are the limit of a group. Name "
            f"groups in it or some of its tasks, in several commands: {', '.join(found[:3])} …"
        )
    return found


def averaged(name: str) -> tuple[GroupMetric, ...]:
    """Return the metrics that the harness averages over a group's tasks.

    There are none for a task, a tag, a group with a task twice, and one that averages nothing.
    """
    tasks = harness()
    root = Path(tasks.__file__).parent
    path = None if name in _files(root, _TASK) else _files(root, _GROUP).get(name)
    if path is None or len(found := tuple(_members(tasks, root, name))) > len(set(found)):
        return ()
    manager = tasks.TaskManager(include_path=str(path.parent), include_defaults=False)
    configured = import_module("lm_eval.config.group").GroupConfig(**manager.task_index[name].cfg)
    return tuple(
        GroupMetric(
            metric=one.metric, filters=one.filter_list, weight_by_size=bool(one.weight_by_size)
        )
        for one in configured.aggregate_metric_list or ()
        if one.aggregation == "mean"
    )


def _own_file(root: Path, path: Path) -> TaskFile:
    settings = settings_of_file(path)
    name: str = settings["task"]
    if name in _files(root, _TASK) or name in _files(root, _GROUP):
        raise NotRendered(
            f"{PACKAGE} has a task {name!r} of its own. Give that of {path.name} another name, so "
            "that scores are not confused."
        )
    configurable = import_module("lm_eval.api.task").ConfigurableTask

    def load(changes: Settings) -> Any:
        return configurable(config={**settings, **changes})

    return TaskFile(name, settings, load, is_own=True)


def _loaded(manager: Any, task: str, changes: Settings) -> Any:
    whole = manager.load({"group": "staged", "task": [{"task": task, **changes}]})
    (loaded,) = whole["tasks"].values()
    return loaded


def _members(tasks: Any, root: Path, name: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the tasks of a task, a group or a tag."""
    if name in _files(root, _TASK):
        yield name
        return
    if name in above:
        return
    children: Any = sorted(_with_tag(tasks, root, name))
    if (path := _files(root, _GROUP).get(name)) is not None:
        manager = tasks.TaskManager(include_path=str(path.parent), include_defaults=False)
        children = manager.task_index[name].cfg["task"]
    for child in [children] if isinstance(children, str) else children:
        if not isinstance(child, str):
            raise NotRendered(f"{name} changes its tasks, which is not implemented. Name a task.")
        yield from _members(tasks, root, child, (*above, name))


@cache
def _files(root: Path, key: re.Pattern[str]) -> Mapping[str, Path]:
    """Return the first file of every task or group, as the harness takes them."""
    found: dict[str, Path] = {}
    for path, text in _texts(root):
        if path.suffix == ".yaml" and (named := key.search(text)):
            found.setdefault(named[1], path)
    return found


def _with_tag(tasks: Any, root: Path, tag: str) -> Iterator[str]:
    """Yield the tasks with a tag, of all folders."""
    for folder in sorted(_tagged(root).get(tag, ())):
        manager = tasks.TaskManager(include_path=str(folder), include_defaults=False)
        if (entry := manager.task_index.get(tag)) is not None:
            yield from entry.tags


@cache
def _tagged(root: Path) -> Mapping[str, set[Path]]:
    """Return the folders in which each tag occurs; tasks can include its file."""
    found: dict[str, set[Path]] = {}
    for path, text in _texts(root):
        for tags in _TAGS.findall(text):
            for tag in re.findall(r"[\w.][\w.-]*", tags):
                found.setdefault(tag, set()).add(path.parent)
    return found


@cache
def _texts(root: Path) -> tuple[tuple[Path, str], ...]:
    """Return all YAML files, those without a suffix too."""
    paths = (path for path in sorted(root.glob("**/*")) if path.name.endswith("yaml"))
    return tuple((path, path.read_text("utf-8", "replace")) for path in paths if path.is_file())
