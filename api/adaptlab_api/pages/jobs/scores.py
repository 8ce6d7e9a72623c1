"""The evaluations of a job as tables, by seed and by task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from adaptlab.comparisons.scores import (
    SHOWN_SPLIT,
    ScoreChange,
    has_right_answers,
    mean_accuracy,
    score_changes,
    task_labels,
)
from adaptlab.comparisons.task_retention import TaskRetention
from adaptlab.metrics.macro_f1 import macro_f1
from adaptlab.plugins.registry import as_json
from adaptlab.runs.events import Confusion, ReplicateResult
from adaptlab.specs.resolved import UnreadSpec, read_resolved, scored_tasks
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.statistics import Interval, guessing_accuracy
from adaptlab.statistics.confusions import SeedMean, mean_counts, mean_over_seeds
from adaptlab_answers.results import EvaluationView


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One task and its mean over seeds."""

    task: str
    accuracy: Interval


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One seed; an accuracy is None until its evaluation is stored."""

    seed: int
    learning_rate: float | None
    accuracies: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """All test scores of a job; of `least` to `total` items each."""

    columns: tuple[ScoreColumn, ...]
    rows: tuple[ScoreRow, ...]
    least: int
    total: int


@dataclass(frozen=True, slots=True)
class ConfusionTable:
    """The mean counts of given labels by right label on one task.

    `counts` are means over the seeds, `accuracy` and `macro_f1` as well.
    """

    task: str
    labels: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    accuracy: float
    macro_f1: SeedMean


@dataclass(frozen=True, slots=True)
class RetentionRow:
    """One task before and after; `is_own` if the base was pretrained on it.

    `kept` is its retention, None for the new task.
    """

    task: str
    is_own: bool
    change: ScoreChange
    kept: TaskRetention | None


@dataclass(frozen=True, slots=True)
class CarriedRow:
    """One task on another base model, alone and with what was found.

    `chance` is the accuracy of guessing, None if the task cannot be read.
    """

    base_model: str
    task: str
    change: ScoreChange
    chance: float | None


def carried_rows(
    evaluations: Sequence[EvaluationView], spec: ResolvedSpec
) -> tuple[CarriedRow, ...]:
    """Return the scores on other base models, by base model and task."""
    resolved = read_resolved(spec)
    tasks = () if isinstance(resolved, UnreadSpec) else scored_tasks(resolved)
    chances = [(as_json(task), task.chance()) for task in tasks]
    changes = [
        (other.name, change)
        for other in spec.evaluation_bases
        for change in score_changes([one for one in evaluations if one.base_model == other.name])
    ]
    labels = task_labels([change.task for _, change in changes])
    return tuple(
        CarriedRow(name, label, change, _guessing(change, chances, evaluations))
        for label, (name, change) in zip(labels, changes, strict=True)
    )


def _guessing(
    change: ScoreChange,
    chances: Sequence[tuple[Mapping[str, object], float]],
    evaluations: Sequence[EvaluationView],
) -> float | None:
    """Return the accuracy without skill on the items of a change, if known."""
    chance = next((chance for task, chance in chances if task == change.task), None)
    counted = (one.confusion for one in evaluations if one.task == change.task)
    majorities = (one and one.majority() for one in counted)
    return None if chance is None else guessing_accuracy(chance, majorities)


def score_table(
    evaluations: Sequence[EvaluationView],
    replicates: Sequence[ReplicateResult],
    own: Mapping[str, object] | None = None,
) -> ScoreTable:
    """Return the attached evaluations as a table.

    Scores of `own`, the task that the job trains on, are the first column.
    """
    scored = [view for view in evaluations if view.split == SHOWN_SPLIT and view.attached]
    scored = [view for view in scored if has_right_answers(view.task)]
    scored.sort(key=lambda view: view.task != own)
    labels = task_labels([view.task for view in scored])
    cells = {(view.replicate, label): view for view, label in zip(scored, labels, strict=True)}
    tasks = tuple(dict.fromkeys(labels))
    rates = {result.replicate: result.learning_rate for result in replicates}
    seeds = {view.replicate: view.seed for view in scored}
    return ScoreTable(
        columns=tuple(
            ScoreColumn(
                task, mean_accuracy([view for (_, name), view in cells.items() if name == task])
            )
            for task in tasks
        ),
        rows=tuple(
            ScoreRow(seed, rates.get(number), _accuracies(cells, number, tasks))
            for number, seed in sorted(seeds.items())
        ),
        least=min((view.total for view in scored), default=0),
        total=max((view.total for view in scored), default=0),
    )


def confusion_tables(
    evaluations: Sequence[EvaluationView], own: Mapping[str, object] | None = None
) -> tuple[ConfusionTable, ...]:
    """Return the counts of attached evaluations by task, that of `own` first.

    Tasks without counts have no table.
    """
    scored = [view for view in evaluations if view.split == SHOWN_SPLIT and view.attached]
    scored.sort(key=lambda view: view.task != own)
    by_task: dict[str, list[tuple[EvaluationView, Confusion]]] = {}
    for label, view in zip(task_labels([view.task for view in scored]), scored, strict=True):
        if view.confusion is not None:
            by_task.setdefault(label, []).append((view, view.confusion))
    return tuple(_confusion_table(task, views) for task, views in by_task.items())


def _confusion_table(
    task: str, scored: Sequence[tuple[EvaluationView, Confusion]]
) -> ConfusionTable:
    labels = scored[0][1].labels
    same = [(view, confusion) for view, confusion in scored if confusion.labels == labels]
    return ConfusionTable(
        task=task,
        labels=labels,
        counts=mean_counts([confusion.counts for _, confusion in same]),
        accuracy=fsum(view.accuracy for view, _ in same) / len(same),
        macro_f1=mean_over_seeds([macro_f1(confusion.counts) for _, confusion in same]),
    )


def retention_rows(
    evaluations: Sequence[EvaluationView], spec: ResolvedSpec, kept: Sequence[TaskRetention]
) -> tuple[RetentionRow, ...]:
    """Return every task scored before and after, the base's own first."""
    changes = score_changes(evaluations)
    labels = task_labels([change.task for change in changes])
    rows = [
        RetentionRow(
            label,
            change.task in spec.base_tasks,
            change,
            next((one for one in kept if one.task == change.task), None),
        )
        for label, change in zip(labels, changes, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: not row.is_own))


def _accuracies(
    cells: Mapping[tuple[int, str], EvaluationView], replicate: int, tasks: Sequence[str]
) -> tuple[float | None, ...]:
    scores = [cells.get((replicate, task)) for task in tasks]
    return tuple(score.correct / score.total if score else None for score in scores)
