"""Samples of a task's metric other than accuracy.

They are made of statistics by item. Metrics need not be means over items: macro-F1 is not, nor is
perplexity. Jackknife pseudo-values make them so (Tukey 1958; Efron and Stein 1981). That of item i
of N is N · value - (N - 1) · value without i, and the same holds of G groups of items.
"""

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import METRICS, Metric
from adaptlab.runs.item_statistics import from_text, unpacked
from adaptlab.statistics.samples import Sample, residual_of
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import spread


def metric_sample(scores: Scores) -> Sample:
    """Return the sample of a row's metric.

    It is on the scale of tests, where more is better. A seed without a score has the worst value.
    Of results of earlier versions, without statistics by item, the sample is about the measured
    items. Raises `ValueError` without a metric.
    """
    if scores.metric is None:
        raise ValueError(f"{scores.label} has no metric beside its accuracy.")
    metric = METRICS.get(scores.metric)
    values = np.array((*scores.measured, *(metric.worst for _ in scores.unscored)))
    scaled = metric.scaled(values)
    if not scores.statistics:
        return Sample(values=scaled, by_unit=np.empty(0), residual=0.0, items=scores.items)
    rows = [
        pseudo_values(
            metric, unpacked(from_text(one), scores.items, metric.columns), scores.clusters
        )
        for one in scores.statistics
    ]
    worst = scaled[len(rows) :]
    by_unit = np.stack((*rows, *(np.full_like(rows[0], value) for value in worst)))
    residual = residual_of(spread(by_unit))
    return Sample(
        values=scaled, by_unit=by_unit.mean(axis=0), residual=residual, items=scores.items
    )


def pseudo_values(
    metric: Metric, statistics: NDArray[np.float64], clusters: tuple[int, ...] = ()
) -> NDArray[np.float64]:
    """Return the jackknife pseudo-values of items, or of their groups.

    They are on the scale of tests.

    Args:
        metric: the metric.
        statistics: those of one seed, [item, column].
        clusters: the number of each item's group, from 0; empty if items are independent.
    """
    parts = metric.summed(statistics)
    if clusters:
        number = np.asarray(clusters)
        columns = [np.bincount(number, weights=column) for column in parts.T]
        parts = np.stack(columns, axis=1).astype(np.float64)
    total, units = parts.sum(axis=0), len(parts)
    whole = metric.scaled(metric.of_sums(total))
    if units == 1:
        return np.array([float(whole)])
    return units * whole - (units - 1) * metric.scaled(metric.without(total, parts))
