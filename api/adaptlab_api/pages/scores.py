"""The evaluations of a job as a table: one row a seed, one column a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adaptlab.results import ReplicateResult
from adaptlab.statistics import Interval, seed_interval
from adaptlab_services.results import EvaluationView

SHOWN_SPLIT = "test"


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One task and its mean over seeds."""

    task: str
    accuracy: Interval


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One seed; an accuracy is None where its evaluation is not there yet."""

    seed: int
    learning_rate: float | None
    accuracies: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """All test scores of a job; `total` is the number of items behind each."""

    columns: tuple[ScoreColumn, ...]
    rows: tuple[ScoreRow, ...]
    total: int


def score_table(
    evaluations: Sequence[EvaluationView], replicates: Sequence[ReplicateResult]
) -> ScoreTable:
    """Put evaluations side by side, tasks in the order in which they were asked for."""
    scored = [one for one in evaluations if one.split == SHOWN_SPLIT]
    labels = task_labels([one.task for one in scored])
    cells = {(one.replicate, label): one for one, label in zip(scored, labels, strict=True)}
    tasks = tuple(dict.fromkeys(labels))
    rates = {one.replicate: one.learning_rate for one in replicates}
    seeds = {one.replicate: one.seed for one in scored}
    return ScoreTable(
        columns=tuple(
            ScoreColumn(task, _interval([one for (_, name), one in cells.items() if name == task]))
            for task in tasks
        ),
        rows=tuple(
            ScoreRow(seed, rates.get(number), _accuracies(cells, number, tasks))
            for number, seed in sorted(seeds.items())
        ),
        total=max((one.total for one in scored), default=0),
    )


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


def _interval(scored: Sequence[EvaluationView]) -> Interval:
    return seed_interval([one.correct for one in scored], [one.total for one in scored])


def _accuracies(
    cells: Mapping[tuple[int, str], EvaluationView], replicate: int, tasks: Sequence[str]
) -> tuple[float | None, ...]:
    found = [cells.get((replicate, task)) for task in tasks]
    return tuple(one.correct / one.total if one else None for one in found)
