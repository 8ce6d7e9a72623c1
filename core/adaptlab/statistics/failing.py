"""Failing seeds: the rule of a table, their share, and an exact test."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Annotated

from pydantic import Field

from adaptlab.statistics.counts import Counting, counts
from adaptlab.statistics.distributions import beta_quantile
from adaptlab.statistics.intervals import Fraction
from adaptlab.statistics.scores import Scores
from adaptlab.values import Value

SUCCEEDS_FROM = 0.5
"""A seed succeeds if it has this share of the gain of the best method's median seed."""
LEAST_GAIN = 0.1
"""A seed with less than this share of the way from chance to 1 has learned nothing, and fails."""


class FailingSeeds(Value):
    """The number of failing seeds, with limits of the failing share.

    The limits are Clopper and Pearson's. If no seed failed, or all did, the limit that is not 0 or
    1 is one-sided, so 0 of 5 leaves up to 45 % (`unseen_failure_rate`).
    """

    failing: Annotated[int, Field(ge=0)]
    seeds: Annotated[int, Field(ge=1)]
    low: Fraction
    high: Fraction
    level: Annotated[float, Field(gt=0, lt=1)]


def failing_below(
    rows: Sequence[Scores], chance: float = 0.0, counting: Counting = counts
) -> float:
    """Return the accuracy below which a seed of any of `rows` fails.

    It is half way from `chance` to the median seed of the best method, and at least `LEAST_GAIN` of
    the way from chance to 1. In a table in which every method is near chance, no seed succeeds.
    """
    best = max(median(_accuracies(row, counting)) for row in rows)
    return chance + max(SUCCEEDS_FROM * (best - chance), LEAST_GAIN * (1 - chance))


def successful(scores: Scores, below: float, counting: Counting = counts) -> tuple[int, ...]:
    """Return the seeds with an accuracy of at least `below`."""
    accuracies = _accuracies(scores, counting)
    return tuple(
        seed for seed, accuracy in zip(scores.seeds, accuracies, strict=True) if accuracy >= below
    )


def failing_seeds(failing: int, seeds: int, level: float = 0.95) -> FailingSeeds:
    """Return the share of failing seeds, with its limits."""
    tail = (1 - level) / (1 if failing in (0, seeds) else 2)
    low = 0.0 if failing == 0 else beta_quantile(failing, seeds - failing + 1, tail)
    high = 1.0 if failing == seeds else beta_quantile(failing + 1, seeds - failing, 1 - tail)
    return FailingSeeds(failing=failing, seeds=seeds, low=low, high=high, level=level)


def exact_p_value(first: FailingSeeds, second: FailingSeeds) -> float:
    """Return Fisher's exact two-sided p-value of equal failure rates."""
    seeds, failing = first.seeds + second.seeds, first.failing + second.failing

    def ways(here: int) -> int:
        return math.comb(first.seeds, here) * math.comb(second.seeds, failing - here)

    seen = ways(first.failing)
    as_rare = sum(ways(here) for here in range(failing + 1) if ways(here) <= seen)
    return as_rare / math.comb(seeds, failing)


def _accuracies(scores: Scores, counting: Counting) -> list[float]:
    return counting(scores, scores.seeds).accuracies.tolist()
