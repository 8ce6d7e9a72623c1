"""Limits of the score of a typical seed, and of its differences.

A typical seed is the median one: half of all seeds score more, half less. No few seeds can exclude
failures that none of them showed, so limits of the mean over all seeds are some 60 points wide with
five; those of the median are not, whatever the law of the seeds.

Student's t covers a median of symmetric laws, and order statistics one of any law: the limits are
the wider of both, each with the part of the items.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics.distributions import student_quantile
from adaptlab.statistics.leads import unit_quantile, welch_freedom
from adaptlab.statistics.samples import Sample, item_variance

Limits = tuple[float, float]


def typical_limits(values: NDArray[np.float64], items: float, units: int, level: float) -> Limits:
    """Return the limits of the median of `values` over other seeds and items.

    Args:
        values: one score or difference per seed, [seed].
        items: the variance that items add to their mean.
        units: the number of items, or of clusters of items.
        level: the confidence.
    """
    reach = unit_quantile(units, (1 - level) / 2) * math.sqrt(items)
    mean = float(values.mean())
    if values.size == 1:
        return mean - reach, mean + reach
    freedom = values.size - 1
    student = student_quantile(freedom, (1 + level) / 2)
    by_t = math.hypot(student * math.sqrt(float(values.var(ddof=1)) / values.size), reach)
    middle = float(np.median(values))
    low, high = ordered_limits(values, level)
    return (
        min(mean - by_t, middle - math.hypot(middle - low, reach)),
        max(mean + by_t, middle + math.hypot(high - middle, reach)),
    )


def ordered_limits(values: "Sequence[float] | NDArray[np.float64]", level: float) -> Limits:
    """Return the seeds between which the median lies at confidence `level`.

    With fewer seeds than the level needs, they are the least and the largest.
    """
    ordered = sorted(values)
    left_out = _left_out(len(ordered), level)
    return float(ordered[left_out]), float(ordered[-1 - left_out])


def unshared_limits(first: Sample, second: Sample, level: float) -> Limits:
    """Return limits of a difference of methods without shared seeds.

    They are Welch's, with the part of the items.
    """
    reach = unit_quantile(first.units, (1 - level) / 2) * math.sqrt(item_variance(first, second))
    seeds = first.of_mean + second.of_mean
    difference = first.mean - second.mean
    if min(first.seeds, second.seeds) > 1 and seeds > 0:
        student = student_quantile(welch_freedom(first, second), (1 + level) / 2)
        reach = math.hypot(student * math.sqrt(seeds), reach)
    return difference - reach, difference + reach


@functools.lru_cache(maxsize=256)
def _left_out(seeds: int, level: float) -> int:
    """Return how many seeds at either end lie outside the limits.

    The median is beyond the r-th seed with the probability that fewer than r of n coins fall.
    """
    left_out, below = 0, 0.0
    while True:
        below += math.comb(seeds, left_out) / 2**seeds
        if 2 * (below + math.comb(seeds, left_out + 1) / 2**seeds) > 1 - level:
            return left_out if 2 * below <= 1 - level else 0
        left_out += 1
