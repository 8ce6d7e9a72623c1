"""Tasks that a job trains and scores: choice, items, and fit to the model."""

from collections.abc import Iterator, Sequence

from adaptlab.errors import Problem, below
from adaptlab.plugins.dataset import Datasets
from adaptlab.plugins.family import Family
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import Task
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.spec import EvaluationSpec


def evaluation_tasks(task: Task | None, chosen: Sequence[tuple[str, Task]]) -> tuple[Task, ...]:
    """Return the tasks to score.

    The job's own task is the first, unless tasks of `placed_tasks` take its place.
    """
    others = tuple(other for _, other in chosen)
    if task is None or not all(one.only_watched for one in others):
        return others
    return (task, *others)


def placed_tasks(spec: EvaluationSpec, datasets: Datasets) -> tuple[tuple[str, Task], ...]:
    """Return the chosen tasks, each with the pointer of its choice.

    A choice of several tasks counts as these.
    """
    return tuple(
        (pointer, task)
        for index, choice in enumerate(spec.tasks)
        for pointer in [f"/evaluation/tasks/{index}"]
        for task in resolve_task(choice, pointer, datasets, splits=("test",)).scored_as()
    )


def at_most(samples: int, split: Split, tasks: Sequence[Task]) -> int:
    """Return the most items that any of the tasks is scored on."""
    return max((task.at_most(split, samples) for task in tasks), default=samples)


def task_problems(
    task: Task | None, chosen: Sequence[tuple[str, Task]], family: Family
) -> Iterator[Problem]:
    """Yield the reasons why a model cannot answer its tasks.

    `task` is the one that it is trained for; `chosen` are those of `placed_tasks`.
    """
    if task is not None:
        yield from below("/task", _problems_of(task, task, family))
    for place, other in chosen:
        if other != task:
            yield from below(place, _problems_of(other, task, family))


def _problems_of(scored: Task, own: Task | None, family: Family) -> Iterator[Problem]:
    if unreadable := scored.reading_problem(family):
        yield unreadable
        return
    yield from _head_problems(scored, own, family)
    shape = family_shape(family)
    for noun, needed, available in (
        ("vocabulary", scored.vocabulary(), shape.vocabulary),
        ("context", scored.content_length(family), shape.context),
    ):
        if needed > available:
            detail = (
                f"{scored.name} needs a {noun} of {needed}. The model has {available}. Make "
                "the task smaller, such as by its `length`, or use a larger base model."
            )
            yield Problem("", f"{noun}_too_small", detail, nearest=(available,))
    if problem := scored.mask_problem(family):
        yield problem


def _head_problems(scored: Task, own: Task | None, family: Family) -> Iterator[Problem]:
    """Yield the reasons why the head of the job does not answer a task."""
    wanted, trained = scored.class_values(), () if own is None else own.class_values()
    if scored.classes() is None:
        if own is not None and own.classes() is not None:
            detail = (
                f"The task trains a head for classes, and {scored.name} needs the model's own. "
                "Leave it out."
            )
            yield Problem("", "other_head", detail)
    elif wanted != trained:
        listed = ", ".join(map(repr, trained[:8]))
        here = f"trains one for {listed}" if trained else "trains no head"
        detail = (
            f"{scored.name} is answered by a head for the classes "
            f"{', '.join(map(repr, wanted[:8]))}, in this order. This job {here}. "
            "Leave the task out, or train it."
        )
        yield Problem("", "no_such_head", detail)
    elif problem := family.padding_problem("no_heads_in_family"):
        yield problem
