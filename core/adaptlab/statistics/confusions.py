"""Macro-F1 from the counts of given labels by right label."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adaptlab.statistics.distributions import student_quantile

Counts = Sequence[Sequence[float]]
"""Items by right label, then by given label."""


def f1_scores(counts: Counts) -> tuple[float | None, ...]:
    """Return the F1 score of every label, 2·hits / (right + given).

    It is the harmonic mean of precision and recall. It is 0 for a label that is right or given but
    never both, and None for one that is neither, for which it is not defined.
    """
    right = [math.fsum(row) for row in counts]
    given = [math.fsum(column) for column in zip(*counts, strict=True)]
    return tuple(
        2 * row[place] / (right[place] + given[place]) if right[place] + given[place] else None
        for place, row in enumerate(counts)
    )


def macro_f1(counts: Counts) -> float:
    """Return the mean F1 score of all labels that are right or given.

    Every label has the same weight, however many items it has. A label that no item has and no
    answer gives is left out, as by `f1_score(average="macro")` of scikit-learn.

    Raises `ValueError` if there are no items.
    """
    scores = [score for score in f1_scores(counts) if score is not None]
    if not scores:
        raise ValueError("There are no items, so no F1 score is defined. Count at least one.")
    return math.fsum(scores) / len(scores)


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
