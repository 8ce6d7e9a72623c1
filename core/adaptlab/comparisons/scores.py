"""The scores of a job side by side: what its tasks are called, and what adapting changed."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from adaptlab.statistics import Interval, seed_interval
from adaptlab.values import Value

SHOWN_SPLIT = "test"


class Scored(Protocol):
    """An evaluation as the server or the client holds it."""

    @property
    def replicate(self) -> int:
        """Which replicate of the job was scored."""
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
        """Items answered rightly."""
        ...

    @property
    def total(self) -> int:
        """Items asked."""
        ...


class ScoreChange(Value):
    """What adapting did to the accuracy on one task: `before` is detached, `after` attached.

    `mean` is the mean over seeds of after less before, as a fraction, and `low` and `high` are the
    smallest and the largest change of a seed. On a task of the base, a negative one is forgetting.
    """

    task: dict[str, object]
    before: Interval
    after: Interval
    mean: float
    low: float
    high: float

    @property
    def seeds(self) -> int:
        """How many seeds were scored both ways."""
        return self.after.seeds


def score_changes(evaluations: Sequence[Scored]) -> tuple[ScoreChange, ...]:
    """The change on every task that was scored both ways, in the order of the evaluations.

    Seeds are paired: both scores of a seed are of the same base replicate on the same test items.
    """
    scored = [one for one in evaluations if one.split == SHOWN_SPLIT]
    tasks: list[Mapping[str, object]] = []
    for one in scored:
        if one.task not in tasks:
            tasks.append(one.task)
    found = (_change([one for one in scored if one.task == task]) for task in tasks)
    return tuple(change for change in found if change is not None)


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
    """The mean accuracy over seeds, one score a seed."""
    return seed_interval([one.correct for one in scored], [one.total for one in scored])


def task_labels(tasks: Sequence[Mapping[str, object]]) -> list[str]:
    """The names of tasks, with the knobs in which tasks of one name differ: `add (k = 2)`."""
    return [_label(task, tasks) for task in tasks]


def _label(task: Mapping[str, object], tasks: Sequence[Mapping[str, object]]) -> str:
    namesakes = [other for other in tasks if other["name"] == task["name"]]
    knobs = [
        f"{knob} = {value}"
        for knob, value in task.items()
        if any(other.get(knob) != value for other in namesakes)
    ]
    return f"{task['name']} ({', '.join(knobs)})" if knobs else str(task["name"])
