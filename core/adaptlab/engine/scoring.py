"""Test scores of the selected replicates, attached and detached."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from adaptlab.engine.evaluate import Judged, judged
from adaptlab.engine.model import Model
from adaptlab.measurements.results import (
    MOST_CONFUSED,
    Confusion,
    Evaluation,
    ReplicateResult,
)
from adaptlab.plugins.task import Task


def score(model: Model, chosen: Sequence[ReplicateResult]) -> Iterator[Evaluation]:
    """Score every selected replicate on every task of the spec.

    `chosen` are the rows of the model. An adaptation is scored twice, on the same items: attached
    and detached. Where the attached score is higher, something has been learned; where the detached
    score is higher, something has been forgotten.
    """
    samples = model.plan.evaluation_samples
    for task in model.plan.evaluation_tasks():
        answers = judged(model, task, "test", samples, len(chosen))
        yield from _evaluations(chosen, task, answers, attached=True)
        if model.plan.method is not None:
            answers = _detached(model, chosen, task, samples)
            yield from _evaluations(chosen, task, answers, attached=False)


def _detached(model: Model, chosen: Sequence[ReplicateResult], task: Task, samples: int) -> Judged:
    """Return the answers of the bases alone, by replicate.

    Replicates of one base share them.
    """
    alone, rows = bases_alone(model, chosen)
    answers = judged(alone, task, "test", samples, len(set(rows)), attached=False)
    return answers.rows(rows)


def bases_alone(model: Model, chosen: Sequence[ReplicateResult]) -> tuple[Model, list[int]]:
    """Return the bases alone, each once, and the place of every row's base."""
    started_from = [_base_replicate(model, result) for result in chosen]
    bases = list(dict.fromkeys(started_from))
    first = [started_from.index(base) for base in bases]
    alone = replace(
        model,
        base={name: t if t.shape[0] == 1 else t[first] for name, t in model.base.items()},
        trained={},
    )
    return alone, [bases.index(base) for base in started_from]


def _base_replicate(model: Model, result: ReplicateResult) -> int:
    return model.plan.spec.base_replicates[result.replicate // model.plan.trials]


def _evaluations(
    chosen: Sequence[ReplicateResult], task: Task, answers: Judged, *, attached: bool
) -> Iterator[Evaluation]:
    outcomes_of_rows = answers.right.to("cpu", torch.bool).numpy()
    for row, result in enumerate(chosen):
        yield Evaluation(
            replicate=result.replicate,
            seed=result.seed,
            task=task.model_dump(mode="json"),
            split="test",
            attached=attached,
            correct=int(outcomes_of_rows[row].sum()),
            total=outcomes_of_rows.shape[1],
            outcomes=np.packbits(outcomes_of_rows[row]).tobytes().hex(),
            confusion=_confusion(task, answers, row),
            loss=_loss(answers, row),
        )


def _loss(answers: Judged, row: int) -> float | None:
    """Return the mean loss of one replicate; None if it is not finite."""
    loss = math.inf if answers.loss is None else float(answers.loss[row])
    return loss if math.isfinite(loss) else None


def _confusion(task: Task, answers: Judged, row: int) -> Confusion | None:
    """Return the counts of labels of one replicate.

    None unless the task has few labels.
    """
    labels = tuple(task.listed_answers())
    if answers.given is None or answers.expected is None or not 2 <= len(labels) <= MOST_CONFUSED:
        return None
    cells = answers.expected * len(labels) + answers.given[row].cpu()
    counts: list[list[int]] = (
        cells.bincount(minlength=len(labels) ** 2).view(len(labels), -1).tolist()
    )
    return Confusion(labels=labels, counts=tuple(map(tuple, counts)))
