"""Scores of groups of standard tasks, as the harness averages them."""

from collections.abc import Iterator, Mapping, Sequence

from adaptlab.interval import Interval
from adaptlab.runs.events import Evaluation
from adaptlab.specs.spec import TaskGroup
from adaptlab.values import Value


class GroupScore(Value):
    """The mean score over all tasks of a group, as lm-eval has it.

    `metric` is its name there, such as `acc` or `exact_match,strict-match`. If `weight_by_size`,
    the tasks weigh by their items; otherwise they are equal. `accuracy` is over the seeds that are
    scored on all `tasks`, and `alone` that of the base model alone, null if it is not known.
    """

    name: str
    label: str
    metric: str
    weight_by_size: bool
    tasks: int
    items: int
    accuracy: Interval
    alone: Interval | None = None

    @property
    def title(self) -> str:
        """The group with its metric."""
        return f"{self.label}, {self.metric}"

    @property
    def figure(self) -> str:
        """The mean with its limits, such as `39.6 % (10.2 to 71.0)`."""
        mean, low, high = (
            f"{100 * share:.1f}"
            for share in (self.accuracy.mean, self.accuracy.low, self.accuracy.high)
        )
        return f"{mean} % ({low} to {high})"


def group_scores(
    groups: Sequence[TaskGroup],
    tasks: Sequence[Mapping[str, object]],
    evaluations: Sequence[Evaluation],
    level: float = 0.95,
) -> tuple[GroupScore, ...]:
    """Return the scores of groups whose tasks are all scored.

    Args:
        groups: the groups of a job.
        tasks: the tasks that it is scored on.
        evaluations: the scores on its own base model, with every outcome.
        level: the confidence of limits.
    """
    from adaptlab.comparisons.scores import SHOWN_SPLIT, task_labels  # loads numpy

    scored = [one for one in evaluations if one.split == SHOWN_SPLIT and one.base_model is None]
    members = [[tasks[place] for place in group.tasks] for group in groups]
    named = [{**of[0], "tasks": [group.name]} for group, of in zip(groups, members, strict=True)]
    every = zip(groups, task_labels(named), members, strict=True)
    return tuple(_scores(every, scored, level))


def _scores(
    groups: "Iterator[tuple[TaskGroup, str, list[Mapping[str, object]]]]",
    scored: Sequence[Evaluation],
    level: float,
) -> Iterator[GroupScore]:
    for group, label, tasks in groups:
        attached = _of_seeds(tasks, [one for one in scored if one.attached])
        alone = _of_seeds(tasks, [one for one in scored if not one.attached])
        if attached:
            yield GroupScore(
                name=group.name,
                label=label,
                metric=group.metric,
                weight_by_size=group.weight_by_size,
                tasks=len(tasks),
                items=sum(one.total for one in attached[0]),
                accuracy=_interval(attached, group, level),
                alone=_interval(alone, group, level) if alone else None,
            )


def _of_seeds(
    tasks: Sequence[Mapping[str, object]], scored: Sequence[Evaluation]
) -> list[list[Evaluation]]:
    """Return the evaluations on all tasks of each replicate that has them."""
    by_replicate: dict[int, list[Evaluation]] = {}
    for task in tasks:
        for one in scored:
            if one.task == task:
                by_replicate.setdefault(one.replicate, []).append(one)
    return [found for found in by_replicate.values() if len(found) == len(tasks)]


def _interval(seeds: Sequence[Sequence[Evaluation]], group: TaskGroup, level: float) -> Interval:
    # Loaded here: the command line needs the class alone.
    from adaptlab.runs.item_outcomes import outcomes_of
    from adaptlab.statistics.group_interval import group_interval

    outcomes = [outcomes_of(of_task) for of_task in zip(*seeds, strict=True)]
    return group_interval(outcomes, by_size=group.weight_by_size, level=level)
