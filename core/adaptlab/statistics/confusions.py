"""Means over seeds, of figures and of counts of labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adaptlab.plugins.metric import Counts
from adaptlab.statistics.distributions import student_quantile


def mean_counts(several: Sequence[Counts]) -> tuple[tuple[float, ...], ...]:
    """Return the mean of counts with the same labels, as those of seeds."""
    return tuple(
        tuple(math.fsum(cells) / len(several) for cells in zip(*rows, strict=True))
        for rows in zip(*several, strict=True)
    )


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A mean over seeds, with the limits of its interval; None for one seed."""

    mean: float
    low: float | None
    high: float | None
    seeds: int


def mean_over_seeds(
    values: Sequence[float], level: float = 0.95, limits: tuple[float, float] = (0.0, 1.0)
) -> SeedMean:
    """Return the mean of one value per seed, with Student's interval.

    It covers other seeds on the same items, not other items, and is cut at `limits`, by default
    those of shares.

    Raises `ValueError` without seeds.
    """
    if not values:
        raise ValueError("There is no seed to take the mean of. Give at least one value.")
    seeds, mean = len(values), math.fsum(values) / len(values)
    if seeds == 1:
        return SeedMean(mean, None, None, seeds)
    variance = math.fsum((value - mean) ** 2 for value in values) / (seeds - 1)
    reach = student_quantile(seeds - 1, (1 + level) / 2) * math.sqrt(variance / seeds)
    low, high = limits
    return SeedMean(mean, max(low, mean - reach), min(high, mean + reach), seeds)
