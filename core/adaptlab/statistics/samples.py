"""The seeds of one method as a sample: their scores, and what items add."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics.counts import Counting, counts
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import Spread, spread


@dataclass(frozen=True, eq=False)
class Sample:
    """The trained seeds of one method on one set of items; more is better.

    Attributes:
        values: the score of every trained seed, the worst for one without a score, [seed].
        by_unit: mean over seeds by unit, [unit]. A unit is an item or a cluster of items;
            the mean over units is the mean score. It is empty for a metric whose statistics by
            item are not kept.
        residual: variance of a unit in one seed that neither the seed nor the unit explains.
        items: the number of items.
    """

    values: NDArray[np.float64]
    by_unit: NDArray[np.float64]
    residual: float
    items: int

    @property
    def seeds(self) -> int:
        """The number of trained seeds."""
        return self.values.size

    @property
    def units(self) -> int:
        """The number of items, or of clusters of items."""
        return self.by_unit.size or self.items

    @cached_property
    def mean(self) -> float:
        """The mean score over trained seeds."""
        return float(self.values.mean())

    @cached_property
    def median(self) -> float:
        """The median score over trained seeds."""
        return float(np.median(self.values))

    @cached_property
    def of_mean(self) -> float:
        """The variance of the mean over trained seeds; 0 for one seed."""
        return float(self.values.var(ddof=1)) / self.seeds if self.seeds > 1 else 0.0

    @cached_property
    def of_items(self) -> float:
        """The variance that items add to the mean, 0 without values by item."""
        if self.by_unit.size < 2:
            return 0.0
        alone = self.residual / max(1, self.seeds)
        return max(0.0, float(self.by_unit.var(ddof=1)) - alone) / self.by_unit.size

    @cached_property
    def noise(self) -> float:
        """The standard deviation of a seed's score by its own items alone."""
        return math.sqrt(self.residual / self.units)


def sample_of(scores: Scores, counting: Counting = counts) -> Sample:
    """Return the sample of scores; `counting` counts their outcomes."""
    counted = counting(scores, scores.trained)
    if not scores.clusters:
        by_item = counted.by_item / len(scores.trained)
        return Sample(counted.accuracies, by_item, residual_of(counted.spread), scores.items)
    units = clustered(counted.bits, scores.clusters)
    by_unit = units.mean(axis=0)
    return Sample(counted.accuracies, by_unit, residual_of(spread(units)), scores.items)


def clustered(
    bits: NDArray[np.uint8] | NDArray[np.float64], clusters: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return one value per seed and cluster, whose mean is the seed's mean.

    It is the linearised ratio of sums: the mean of all items plus G / N times the cluster's sum of
    deviations from it, for G clusters of N items. Clusters of unequal sizes therefore weigh by
    their items (Miller, "Adding error bars to evals", 2024).

    Args:
        bits: outcomes, [seed, item].
        clusters: the number of each item's cluster, from 0, [item].
    """
    number = np.asarray(clusters)
    sizes = np.bincount(number).astype(np.float64)
    sums = np.stack([np.bincount(number, weights=row, minlength=sizes.size) for row in bits])
    mean = bits.mean(axis=1, keepdims=True)
    return mean + (sums - sizes * mean) * sizes.size / number.size


def shifted(sample: Sample, by: float) -> Sample:
    """Return the sample with `by` added to every score."""
    return replace(sample, values=sample.values + by, by_unit=sample.by_unit + by)


UNSEEN_ITEMS = 1.5
"""Items that are added to those on which two methods differ, in standard deviations.

Of N items on which two methods never differ, up to 3 / N of all may be ones on which they do.
"""


def item_variance(first: Sample, second: Sample) -> float:
    """Return the variance that items add to the difference of two means.

    It is what items have in common for all seeds of a method: the variance of the units' mean
    differences, less the part of it that single seeds explain, divided by the units. Some items are
    added, because few items that tell the methods apart make its estimate too small. Without values
    by item it is 0: what is found then is about the measured items.
    """
    if not (first.by_unit.size and second.by_unit.size):
        return 0.0
    unseen = (UNSEEN_ITEMS / first.items) ** 2
    if first.units < 2:
        return 1.0
    by_unit = first.by_unit - second.by_unit
    alone = sum(one.residual / max(1, one.seeds) for one in (first, second))
    return max(0.0, float(by_unit.var(ddof=1)) - alone) / first.units + unseen


def residual_of(of: Spread) -> float:
    """Return the variance of a unit in one seed that neither explains."""
    return of.rest * of.seeds * of.items
