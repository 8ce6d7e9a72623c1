"""The scores of a job side by side, and the change by adapting."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from adaptlab.specs.task_labels import label_among, numbered, task_class
from adaptlab.statistics import Interval, seed_interval
from adaptlab.values import Value

SHOWN_SPLIT = "test"


class Scored(Protocol):
    """An evaluation, in the form of the server or of the client."""

    @property
    def replicate(self) -> int:
        """The replicate of the job that was scored."""
        ...

    @property
    def task(self) -> Mapping[str, object]:
        """The task's whole configuration."""
        ...

    @property
    def split(self) -> str:
        """The split that the items are from."""
        ...

    @property
    def attached(self) -> bool:
        """False for a score of the base model on its own."""
        ...

    @property
    def correct(self) -> int:
        """The number of items answered correctly."""
        ...

    @property
    def total(self) -> int:
        """The number of items."""
        ...

    @property
    def effective_items(self) -> float | None:
        """The items that count if all of a group are alike, None without groups."""
        ...


class ScoreChange(Value):
    """The change of accuracy on one task by adapting.

    `before` is detached, `after` attached. `mean` is the mean over seeds of after minus before, as
    a fraction; `low` and `high` are the smallest and the largest change of a seed. On a task of the
    base, a negative change is forgetting.
    """

    task: dict[str, object]
    before: Interval
    after: Interval
    mean: float
    low: float
    high: float

    @property
    def seeds(self) -> int:
        """The number of seeds that were scored both ways."""
        return self.after.seeds


def has_right_answers(task: Mapping[str, object]) -> bool:
    """Return False for a task of which no item can be right."""
    plugin = task_class(task)
    return plugin is None or plugin.has_right_answers(task)


def score_changes(evaluations: Sequence[Scored]) -> tuple[ScoreChange, ...]:
    """Return the change on every task that was scored both ways.

    Tasks are in the order of the evaluations. Seeds are paired: both scores of a seed are of the
    same base replicate on the same test items.
    """
    scored = [one for one in evaluations if one.split == SHOWN_SPLIT]
    scored = [one for one in scored if has_right_answers(one.task)]
    tasks: list[Mapping[str, object]] = []
    for one in scored:
        if one.task not in tasks:
            tasks.append(one.task)
    changes = (_change([one for one in scored if one.task == task]) for task in tasks)
    return tuple(change for change in changes if change is not None)


def _change(of_task: Sequence[Scored]) -> ScoreChange | None:
    detached = {one.replicate: one for one in of_task if not one.attached}
    pairs = [
        (detached[one.replicate], one)
        for one in of_task
        if one.attached and one.replicate in detached
    ]
    if not pairs:
        return None
    before, after = zip(*pairs, strict=True)
    differences = [new.correct / new.total - old.correct / old.total for old, new in pairs]
    return ScoreChange(
        task=dict(pairs[0][1].task),
        before=mean_accuracy(before),
        after=mean_accuracy(after),
        mean=math.fsum(differences) / len(differences),
        low=min(differences),
        high=max(differences),
    )


def mean_accuracy(scored: Sequence[Scored]) -> Interval:
    """Return the mean accuracy over seeds, from one score per seed."""
    return seed_interval(
        [one.correct for one in scored],
        [one.total for one in scored],
        effective=[one.effective_items or one.total for one in scored],
    )


def task_labels(tasks: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names of tasks, with differing knobs: `add (k = 2)`.

    That of a task on records has its dataset too: `text_classification of reviews`.
    """
    distinct: list[Mapping[str, object]] = []
    for task in tasks:
        if task not in distinct:
            distinct.append(task)
    named = numbered([label_among(task, distinct) or _label(task, distinct) for task in distinct])
    return [named[distinct.index(task)] for task in tasks]


def _label(task: Mapping[str, object], tasks: Sequence[Mapping[str, object]]) -> str:
    namesakes = [other for other in tasks if other["name"] == task["name"]]
    knobs = [
        f"{knob} = {_knob(value, [other.get(knob) for other in namesakes])}"
        for knob, value in task.items()
        if any(other.get(knob) != value for other in namesakes)
    ]
    return f"{task['name']} ({', '.join(knobs)})" if knobs else str(task["name"])


def _knob(value: object, among: Sequence[object]) -> object:
    """Return a knob as text; an inner task has its own label among others."""
    inner = _inner_task(value)
    return value if inner is None else _label(inner, [*filter(None, map(_inner_task, among))])


def _inner_task(value: object) -> Mapping[str, object] | None:
    if not isinstance(value, Mapping) or "name" not in value:
        return None
    return cast("Mapping[str, object]", value)
