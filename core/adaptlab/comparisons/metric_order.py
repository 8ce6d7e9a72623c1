"""The order of methods by a task's metric other than accuracy."""

import statistics
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from adaptlab.measurements.results import MetricFloor
from adaptlab.plugins.metric import METRICS, Metric
from adaptlab.statistics.best_set import BestSet, of_leaders
from adaptlab.statistics.metric_samples import metric_sample
from adaptlab.statistics.more_seeds import more_seeds
from adaptlab.statistics.samples import Sample
from adaptlab.statistics.scores import Scores, best_floor
from adaptlab.statistics.typical import Limits, typical_limits, unshared_limits
from adaptlab.values import Value


class MetricRow(Value):
    """The metric of one row, and its difference from the leader.

    `mean` is over the scored seeds. `difference` is on the scale of the tests: points of a share,
    or nats per token of a perplexity, with a positive sign if the row is better; None for the
    leader. Limits are those of a typical seed, at the comparison's level.
    """

    label: str
    mean: float
    low: float | None
    high: float | None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None


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
    more_seeds: int | None
    covers_items: bool
    floor: MetricFloor | None = None
    rows: tuple[MetricRow, ...]


def metric_order(
    rows: Sequence[Scores], candidates: Sequence[str], level: float
) -> MetricOrder | None:
    """Return the order of the rows of one cell; None without a metric.

    `candidates` are the labels of rows that can be the best, and `level` is the confidence of the
    limits.
    """
    measured = {row.label: row for row in rows if row.metric is not None}
    ours = [label for label in candidates if label in measured]
    if not ours:
        return None
    samples = {label: metric_sample(row) for label, row in measured.items()}
    found = BestSet({label: samples[label] for label in ours}, samples)
    leader = found.leader
    assert leader is not None, "a best set is never empty"
    open_ones = [samples[label] for label in found.best]
    metric = measured[leader].metric
    assert metric is not None
    return MetricOrder(
        metric=metric,
        best=tuple(found.best),
        leader=leader,
        more_seeds=more_seeds(open_ones, found.tail) if len(open_ones) > 1 else None,
        covers_items=all(row.statistics for row in measured.values()),
        floor=best_floor(METRICS.get(metric), (row.metric_floor for row in measured.values())),
        rows=tuple(
            _row(
                row,
                samples[row.label],
                None if row.label == leader else samples[leader],
                (level, of_leaders(level, len(found.best))),
            )
            for row in measured.values()
        ),
    )


def _row(
    row: Scores, sample: Sample, leader: Sample | None, levels: tuple[float, float]
) -> MetricRow:
    """Return a row; the levels are that of its limits and of differences."""
    assert row.metric is not None
    metric, limits = METRICS.get(row.metric), None
    if sample.seeds > 1:
        limits = typical_limits(sample.values, sample.of_items, sample.units, levels[0])
    low, high = _within(metric, limits)
    difference = difference_low = difference_high = None
    if leader is not None:
        difference = sample.mean - leader.mean
        difference_low, difference_high = unshared_limits(sample, leader, levels[1])
    return MetricRow(
        label=row.label,
        mean=statistics.fmean(row.measured),
        low=low,
        high=high,
        difference=difference,
        difference_low=difference_low,
        difference_high=difference_high,
    )


def _within(metric: Metric, limits: Limits | None) -> tuple[float | None, float | None]:
    """Return limits as values of the metric, within its bounds."""
    if limits is None:
        return None, None
    low, high = sorted(map(metric.unscaled, limits))
    return max(metric.limits[0], low), min(metric.limits[1], high)
