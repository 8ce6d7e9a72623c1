"""What a handful of seeds says about a mean: intervals for accuracies."""

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from adaptlab.distributions import beta_quantile, student_quantile
from adaptlab.values import Value

Fraction = Annotated[float, Field(ge=0, le=1)]


class Interval(Value):
    """A mean accuracy and how far it can be off, at confidence `level`.

    `seeds` is the number of seeds behind it; `over_items_only` says that there was one seed, so
    that the interval covers the choice of test items and not the choice of seed.
    """

    mean: Fraction
    low: Fraction
    high: Fraction
    level: Annotated[float, Field(gt=0, lt=1)]
    seeds: Annotated[int, Field(ge=1)]
    over_items_only: bool = False


def seed_interval(correct: Sequence[int], total: Sequence[int], level: float = 0.95) -> Interval:
    """An interval for the mean accuracy over seeds, from `correct[i]` of `total[i]` items each.

    The wider of two: Student's t over the accuracies of the seeds (mean ± t · s / √n), which is
    the right one when seeds differ, and Clopper and Pearson's exact interval (Biometrika, 1934)
    of the pooled items, which has a width when all seeds agree, at 0 % and 100 % too. One seed
    has only the second. The result is clipped to [0, 1].

    Coverage of the true mean, simulated at level 0.95 with 3, 5 and 10 seeds of 1000 items
    (tests/core/test_statistics.py): 0.97 to 0.99 when all seeds share one accuracy; 0.93 to 0.95
    when they lie evenly within ten points of it; about 0.90 when they are skewed towards 1. It
    falls far short when a seed either solves the task or fails it: where one seed in five fails,
    0.49 with 3 seeds, 0.66 with 5 and 0.88 with 10, because often none of the seeds at hand failed
    and nothing in the data tells of it. One seed says nothing about other seeds.

    Raises `ValueError` for lists of unequal length, for none, and for impossible counts.
    """
    _check(correct, total, level)
    accuracies = [right / items for right, items in zip(correct, total, strict=True)]
    mean = math.fsum(accuracies) / len(accuracies)
    low, high = _clopper_pearson(sum(correct), sum(total), level)
    over_seeds = _student(accuracies, mean, level)
    if over_seeds is not None and over_seeds[1] - over_seeds[0] > high - low:
        low, high = over_seeds
    return Interval(
        mean=mean,
        # With unequal totals the pooled share is not the mean of the seeds, which must lie inside.
        low=max(0.0, min(low, mean)),
        high=min(1.0, max(high, mean)),
        level=level,
        seeds=len(accuracies),
        over_items_only=over_seeds is None,
    )


def _check(correct: Sequence[int], total: Sequence[int], level: float) -> None:
    if len(correct) != len(total) or not correct:
        raise ValueError(
            f"Give one count of right items and one total a seed, not {len(correct)} "
            f"and {len(total)}."
        )
    if not 0 < level < 1:
        raise ValueError(f"A confidence level lies between 0 and 1; {level} does not.")
    for right, items in zip(correct, total, strict=True):
        if items < 1 or not 0 <= right <= items:
            raise ValueError(f"{right} right of {items} items is not a score.")


def _clopper_pearson(right: int, items: int, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else beta_quantile(right, items - right + 1, tail)
    high = 1.0 if right == items else beta_quantile(right + 1, items - right, 1 - tail)
    return low, high


def _student(values: Sequence[float], mean: float, level: float) -> tuple[float, float] | None:
    """Student's t interval; None for one value, which has no spread."""
    if len(values) == 1:
        return None
    freedom = len(values) - 1
    variance = math.fsum((value - mean) ** 2 for value in values) / freedom
    reach = student_quantile(freedom, (1 + level) / 2) * math.sqrt(variance / len(values))
    return mean - reach, mean + reach
