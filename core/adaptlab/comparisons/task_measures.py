"""The losses and metrics of a job's tasks, adapted and alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from typing import Protocol

from adaptlab.comparisons.scores import SHOWN_SPLIT, Scored, task_labels
from adaptlab.metrics.near_ties import TOLERANCE
from adaptlab.plugins.metric import Metric, measured_on, metrics
from adaptlab.statistics.confusions import SeedMean, mean_over_seeds

NEAR_TIES = "near_ties"


class MeasuredScore(Scored, Protocol):
    """An evaluation with its loss and the values of other metrics."""

    @property
    def loss(self) -> float | None:
        """The mean loss in nats per token, None for choices among labels."""
        ...

    @property
    def measures(self) -> Mapping[str, float]:
        """The values of other metrics by name."""
        ...


@dataclass(frozen=True, slots=True)
class LossRow:
    """The mean loss on test items over the seeds, in nats per token.

    `alone` is that of the base model alone, None if it is not known.
    """

    task: str
    adapted: float
    alone: float | None


@dataclass(frozen=True, slots=True)
class MetricLine:
    """A metric that a task asks for, on its test items.

    `alone` is the mean of the base model alone, None if it is not known.
    """

    metric: Metric
    task: str
    adapted: SeedMean
    alone: float | None


def loss_rows(
    evaluations: Sequence[MeasuredScore], own: Mapping[str, object] | None = None
) -> tuple[LossRow, ...]:
    """Return the losses by task, that of `own` first.

    Tasks that choose among labels have none.
    """
    measured = _adapted_and_alone(evaluations, own, lambda view: view.loss)
    return tuple(
        LossRow(task, fsum(attached) / len(attached), _mean_of(alone))
        for task, attached, alone in measured
    )


def measure_rows(
    evaluations: Sequence[MeasuredScore], own: Mapping[str, object] | None = None
) -> tuple[MetricLine, ...]:
    """Return the metrics of tasks that ask for one, those of `own` first."""
    return tuple(
        MetricLine(metric, task, mean_over_seeds(attached, limits=metric.limits), _mean_of(alone))
        for metric in metrics()
        for task, attached, alone in _adapted_and_alone(
            evaluations, own, partial(_asked_for, metric)
        )
    )


def near_tie_counts(evaluations: Sequence[MeasuredScore]) -> tuple[str, ...]:
    """Return the number of near ties of each standard task, as sentences."""
    scored = [one for one in evaluations if one.attached and NEAR_TIES in one.measures]
    counts: dict[str, tuple[int, int]] = {}
    for label, one in zip(task_labels([one.task for one in scored]), scored, strict=True):
        near, items = counts.get(label, (0, 0))
        counts[label] = near + round(one.measures[NEAR_TIES] * one.total), items + one.total
    return tuple(
        f"{label}: {near:,} of {items:,} items over all seeds hang on less than {TOLERANCE:.4f}."
        for label, (near, items) in counts.items()
    )


def _asked_for(metric: Metric, view: MeasuredScore) -> float | None:
    return view.measures.get(metric.name) if metric in measured_on(view.task) else None


def _adapted_and_alone(
    evaluations: Sequence[MeasuredScore],
    own: Mapping[str, object] | None,
    figure: Callable[[MeasuredScore], float | None],
) -> Iterator[tuple[str, list[float], list[float]]]:
    """Yield a figure by task, adapted and alone; that of `own` is first."""
    scored = [
        (view, value)
        for view in evaluations
        if view.split == SHOWN_SPLIT and (value := figure(view)) is not None
    ]
    scored.sort(key=lambda one: one[0].task != own)
    figures: dict[str, tuple[list[float], list[float]]] = {}
    labels = task_labels([view.task for view, _ in scored])
    for label, (view, value) in zip(labels, scored, strict=True):
        attached, alone = figures.setdefault(label, ([], []))
        (attached if view.attached else alone).append(value)
    for task, (attached, alone) in figures.items():
        if attached:
            yield task, attached, alone


def _mean_of(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None
