"""The order of methods by a task's metric other than accuracy."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from adaptlab.plugins.metric import METRICS, Metric
from adaptlab.runs.events import MetricFloor
from adaptlab.statistics.best_set import BestSet
from adaptlab.statistics.counts import Counting, counts
from adaptlab.statistics.metric_samples import metric_sample
from adaptlab.statistics.samples import Sample, sample_of
from adaptlab.statistics.scores import Scores, best_floor
from adaptlab.statistics.typical import Limits, typical_limits
from adaptlab.values import Value


class MetricRow(Value):
    """The metric of one row.

    `mean` is over the scored seeds. The limits are those of a typical seed on new items, at the
    comparison's level; None with one seed.
    """

    label: str
    mean: float
    low: float | None
    high: float | None


class MetricOrder(Value):
    """The best set of one cell by the task's metric.

    `best` may be the best for the next seed, and `leader` has the highest typical value among them.
    `covers_items` is true if the order holds for new items too; otherwise it is about the items
    that were measured. A seed fails if it does not beat `floor`, which is None in results of
    earlier versions; then seeds fail by right items. Rows without the metric, measured by an
    earlier version, are left out.
    """

    metric: str
    best: Annotated[tuple[str, ...], Field(min_length=1)]
    leader: str
    covers_items: bool
    floor: MetricFloor | None = None
    rows: tuple[MetricRow, ...]


def own_sample(row: Scores, counting: Counting = counts) -> Sample:
    """Return the sample of a row by its metric, else by right items."""
    return sample_of(row, counting) if row.metric is None else metric_sample(row)


def metric_order(
    rows: Sequence[Scores], candidates: BestSet, samples: Mapping[str, Sample], level: float
) -> MetricOrder:
    """Return the order of the rows of one cell, which all have one metric.

    `samples` are by label, and `level` is the confidence of the limits.
    """
    name, leader = rows[0].metric, candidates.leader
    assert name is not None
    assert leader is not None, "a best set is never empty"
    return MetricOrder(
        metric=name,
        best=tuple(candidates.best),
        leader=leader,
        covers_items=all(row.statistics for row in rows),
        floor=best_floor(METRICS.get(name), (row.metric_floor for row in rows)),
        rows=tuple(metric_row(row, samples[row.label], level) for row in rows),
    )


def metric_row(row: Scores, sample: Sample, level: float) -> MetricRow:
    """Return the metric of a row with its limits."""
    assert row.metric is not None
    metric, limits = METRICS.get(row.metric), None
    if sample.seeds > 1:
        limits = typical_limits(sample.values, sample.of_items, sample.units, level)
    low, high = _within(metric, limits)
    return MetricRow(label=row.label, mean=statistics.fmean(row.measured), low=low, high=high)


def _within(metric: Metric, limits: Limits | None) -> tuple[float | None, float | None]:
    """Return limits as values of the metric, within its bounds."""
    if limits is None:
        return None, None
    low, high = sorted(map(metric.unscaled, limits))
    return max(metric.limits[0], low), min(metric.limits[1], high)
