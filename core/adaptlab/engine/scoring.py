"""Test scores of the selected replicates, attached and detached."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from adaptlab.engine.answer_f1 import token_f1s
from adaptlab.engine.bases_alone import bases_alone
from adaptlab.engine.evaluate import Judged, confusion_of, judged
from adaptlab.engine.making import clusters_of
from adaptlab.engine.model import Model
from adaptlab.measurements.results import Evaluation, ReplicateResult
from adaptlab.plugins.task import Task


def score(model: Model, chosen: Sequence[ReplicateResult]) -> Iterator[Evaluation]:
    """Score every selected replicate on every task of the spec.

    `chosen` are the rows of the model. An adaptation is scored twice, on the same items: attached
    and detached. Where the attached score is higher, something has been learned; where the detached
    score is higher, something has been forgotten.
    """
    for task in model.plan.evaluation_tasks():
        yield from _evaluations(chosen, task, _answers(model, task, len(chosen)), attached=True)
        if model.plan.method is not None:
            alone, rows = bases_alone(model, chosen)
            answers = _answers(alone, task, len(set(rows)), attached=False)
            yield from _evaluations(chosen, task, answers.rows(rows), attached=False)


@dataclass(frozen=True)
class _Answers:
    """Answers to the test items, and their token F1 by replicate if asked for."""

    judged: Judged
    token_f1: list[float] | None

    def rows(self, rows: Sequence[int]) -> "_Answers":
        """Return the answers of some replicates: those of one base share them."""
        measured = None if self.token_f1 is None else [self.token_f1[row] for row in rows]
        return _Answers(self.judged.rows(rows), measured)


def _answers(model: Model, task: Task, replicates: int, *, attached: bool = True) -> _Answers:
    samples = model.plan.evaluation_samples
    with_loss = not task.listed_answers()
    found = judged(model, task, "test", samples, replicates, attached=attached, with_loss=with_loss)
    if task.other_metric() != "token_f1":
        return _Answers(found, None)
    return _Answers(found, token_f1s(model, task, "test", found.right, attached=attached))


def _evaluations(
    chosen: Sequence[ReplicateResult], task: Task, answers: _Answers, *, attached: bool
) -> Iterator[Evaluation]:
    found = answers.judged
    clusters = clusters_of(task, "test", found.right.shape[1])
    outcomes_of_rows = found.right.to("cpu", torch.bool).numpy()
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
            clusters=clusters,
            confusion=confusion_of(task, found, row),
            loss=_loss(found, row),
            token_f1=None if answers.token_f1 is None else answers.token_f1[row],
        )


def _loss(answers: Judged, row: int) -> float | None:
    """Return the mean loss of one replicate; None if it is not finite."""
    loss = math.inf if answers.loss is None else float(answers.loss[row])
    return loss if math.isfinite(loss) else None
