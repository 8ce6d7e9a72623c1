"""Test scores of the selected replicates, attached and detached."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.items.task_items import clusters_of
from adaptlab.engine.measuring.drift import kl_from_base
from adaptlab.engine.measuring.evaluate import Judged, confusion_of, judged
from adaptlab.engine.measuring.measuring import statistics_of
from adaptlab.engine.measuring.metric_floors import unskilled
from adaptlab.engine.measuring.phase_progress import Advance
from adaptlab.engine.models.bases_alone import bases_alone, bases_of
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.plugins.metric import METRICS, Metric, measured_on
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.task import Task
from adaptlab.plugins.text_task import TextTask
from adaptlab.runs.events import Evaluation, Measure, MetricFloor, ReplicateResult
from adaptlab.runs.item_statistics import as_text, packed
from adaptlab.statistics.scores import best_floor


def answers_to_score(plan: Plan, chosen: Sequence[ReplicateResult]) -> int:
    """Return the number of answers that `score` judges."""
    alone = 0 if plan.method is None else len(set(bases_of(plan, chosen)))
    return (len(chosen) + alone) * sum(map(plan.items_of, plan.evaluation_tasks()))


def score(
    model: Model, chosen: Sequence[ReplicateResult], advance: Advance
) -> Iterator[Evaluation]:
    """Score every selected replicate on every task of the spec.

    `chosen` are the rows of the model. An adaptation is scored twice, on the same items: attached
    and detached. Where the attached score is higher, something has been learned; where the detached
    score is higher, something has been forgotten. `advance` is told how many answers are judged.
    """
    for task in model.plan.evaluation_tasks():
        answers, alone = _answers(model, task, [one.seed for one in chosen], advance), None
        if model.plan.method is not None:
            bases, rows = bases_alone(model, chosen)
            number = len(set(rows))
            alone = _answers(bases, task, range(number), advance, attached=False).rows(rows)
            if (metric := answers.metric) is not None and metric.needs == "base":
                samples = model.plan.items_of(task)
                answers = answers.drifted(kl_from_base(model, bases, rows, task, samples))
        yield from _evaluations(chosen, task, answers.with_floors(task, alone), attached=True)
        if alone is not None:
            yield from _evaluations(chosen, task, alone.with_floors(task, None), attached=False)


@dataclass(frozen=True)
class _Answers:
    """Answers to the test items, with the task's metric if it has one.

    `statistics` are those of the metric, [replicate, item, column], as are those `beside` it of
    other metrics. `signature` is that of the metric's values. `floors` are by replicate.
    """

    judged: Judged
    metric: Metric | None = None
    statistics: NDArray[np.float64] | None = None
    floors: Sequence[MetricFloor | None] = ()
    signature: str | None = None
    beside: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def rows(self, rows: Sequence[int]) -> "_Answers":
        """Return the answers of some replicates: those of one base share them."""
        some = list(rows)
        return replace(
            self,
            judged=self.judged.rows(rows),
            statistics=None if self.statistics is None else self.statistics[some],
            beside={name: statistics[some] for name, statistics in self.beside.items()},
        )

    def drifted(self, divergences: NDArray[np.float64]) -> "_Answers":
        """Return the answers with divergences from the base, [replicate, item]."""
        assert self.statistics is not None
        statistics = self.statistics.copy()
        statistics[..., 0] = divergences
        return replace(self, statistics=statistics)

    def with_floors(self, task: Task, alone: "_Answers | None") -> "_Answers":
        """Return the answers with what the metric needs no skill for."""
        metric, statistics = self.metric, self.statistics
        if metric is None or statistics is None:
            return self
        unread = unskilled(task, metric, statistics[0])
        by_bases = () if alone is None or alone.statistics is None else alone.statistics
        bases = [MetricFloor(value=metric.value(one), kind="base_alone") for one in by_bases]
        floors = [
            best_floor(metric, [unread, *bases[row : row + 1]]) for row in range(len(statistics))
        ]
        return replace(self, floors=floors)

    def measures(self, row: int) -> tuple[Measure, ...]:
        """Return the metrics of one replicate, that of the task first."""
        found = ((METRICS.get(name), one[row]) for name, one in self.beside.items())
        others = tuple(_measure(other, one, other.signature()) for other, one in found)
        if self.metric is None or self.statistics is None:
            return others
        floor = self.floors[row] if self.floors else None
        return (_measure(self.metric, self.statistics[row], self.signature, floor), *others)


def _measure(
    metric: Metric,
    statistics: NDArray[np.float64],
    signature: str | None,
    floor: MetricFloor | None = None,
) -> Measure:
    """Return a metric's value for one replicate, of statistics [item, column]."""
    return Measure(
        metric=metric.name,
        value=metric.value(statistics),
        statistics=as_text(packed(statistics)),
        floor=floor,
        signature=signature,
    )


def _answers(
    model: Model, task: Task, seeds: Sequence[int], advance: Advance, *, attached: bool = True
) -> _Answers:
    samples = model.plan.items_of(task)
    metric = task.own_metric()
    with_loss = not task.listed_answers()
    found = judged(
        model, task, "test", samples, len(seeds), attached=attached, with_loss=with_loss,
        with_answers=metric is not None and metric.needs == "answers",
        seeds=seeds, advance=advance,
    )  # fmt: skip
    beside = {
        one.name: statistics_of(task, "test", one, found)
        for one in measured_on(as_json(task))
        if metric is None or one.name != metric.name
    }
    if metric is None:
        return _Answers(found, beside=beside)
    measured = statistics_of(task, "test", metric, found)
    return _Answers(found, metric, measured, signature=_signature(task, metric), beside=beside)


def _signature(task: Task, metric: Metric) -> str:
    """Return the signature of a metric on a task.

    Where a loss is divided by bytes, it matters whether the token that ends an answer adds to it.
    Of several right answers, exact match beside the metric once read the first only.
    """
    signature = metric.signature()
    if isinstance(task, TextTask) and task.accepts_several():
        signature += "|any right answer"
    if metric.needs == "likelihood_of_text" and item_texts(task).end is None:
        return f"{signature}|without end tokens"
    return signature


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
            measures=answers.measures(row),
        )


def _loss(answers: Judged, row: int) -> float | None:
    """Return the mean loss of one replicate; None if it is not finite."""
    loss = math.inf if answers.loss is None else float(answers.loss[row])
    return loss if math.isfinite(loss) else None
