"""Answers that models give to the first test items, as text."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.measuring.phase_progress import Advance, PhaseProgress, untold
from adaptlab.engine.models.model import Model
from adaptlab.engine.observer import Observer
from adaptlab.plugins.task import Task
from adaptlab.runs.events import AnswersGiven, AnswerText, ItemsShown, ReplicateResult
from adaptlab.runs.reported_answers import answer_excerpt

Given = list[list[AnswerText]]
"""Answers by replicate and item."""


def shown_answers(
    model: Model, chosen: Sequence[ReplicateResult], observer: Observer
) -> Iterator[ItemsShown | AnswersGiven]:
    """Yield the shown items of every scored task, then the answers to them.

    `chosen` are the rows of the model, of which the first answers. As in scoring, an adaptation
    answers twice: attached and detached.
    """
    tasks, chosen = model.plan.evaluation_tasks(), chosen[:1]
    counts = list(map(model.plan.shown_of, tasks))
    if not any(counts) or not chosen:
        return
    model = model.rows([0])
    sides = 1 if model.plan.method is None else 2
    advance = PhaseProgress(observer, "answering", sides * sum(counts)).advance
    for place, (task, count) in enumerate(zip(tasks, counts, strict=True)):
        if not count:
            continue
        texts = item_texts(task)
        document = task.model_dump(mode="json")
        yield ItemsShown(task_place=place, task=document, items=texts.shown(count))
        seeds = [one.seed for one in chosen]
        given = given_answers(model, task, count, len(chosen), advance, seeds=seeds)
        yield from _reports(place, chosen, given, attached=True)
        if model.plan.method is not None:
            alone = replace(model, trained={})
            given = given_answers(alone, task, count, len(chosen), advance, attached=False)
            yield from _reports(place, chosen, given, attached=False)


def _reports(
    task_place: int, chosen: Sequence[ReplicateResult], given: Given, *, attached: bool
) -> Iterator[AnswersGiven]:
    for result, answers in zip(chosen, given, strict=True):
        yield AnswersGiven(
            task_place=task_place,
            replicate=result.replicate,
            seed=result.seed,
            attached=attached,
            answers=tuple(answers),
        )


def given_answers(
    model: Model,
    task: Task,
    count: int,
    replicates: int,
    advance: Advance = untold,
    *,
    attached: bool = True,
    seeds: Sequence[int] = (),
) -> Given:
    """Return the answers to the first `count` test items, by replicate.

    Where a task chooses from a list, this is the choice that scoring compares, otherwise the answer
    of decoding, or the first sample, drawn with `seeds` by replicate. Without `attached`, the base
    model answers alone.
    """
    texts = item_texts(task)
    found = judged(
        model, task, "test", count, replicates,
        attached=attached, with_loss=False, with_answers=True,
        seeds=seeds, advance=advance,
    )  # fmt: skip
    if found.given is not None:
        return [
            [texts.choice(item, place) for item, place in enumerate(row)]
            for row in found.given.tolist()
        ]
    cut = task.without_stop
    return [[answer_excerpt(cut(texts.written(first))) for first, *_ in row] for row in found.told]
