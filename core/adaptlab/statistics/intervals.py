"""Intervals for a method's mean accuracy over seeds and test items."""

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from adaptlab.statistics.counts import Counting, counts
from adaptlab.statistics.distributions import student_quantile
from adaptlab.statistics.limits import around, clopper_pearson
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import normal_quantile
from adaptlab.statistics.unseen import Evidence, evidence
from adaptlab.values import Value

Fraction = Annotated[float, Field(ge=0, le=1)]


class Interval(Value):
    """A mean accuracy and how far it can be off, at confidence `level`.

    `low` and `high` cover seeds like the `seeds` that were run, and other test items. If
    `over_items_only`, they cover other items alone, because there is one seed or every seed has
    the same score. `all_seeds_low` and `all_seeds_high` limit the mean over all seeds, failures
    and successes that no seed showed included; they are None in results of older versions.
    """

    mean: Fraction
    low: Fraction
    high: Fraction
    level: Annotated[float, Field(gt=0, lt=1)]
    seeds: Annotated[int, Field(ge=1)]
    over_items_only: bool = False
    all_seeds_low: Fraction | None = None
    all_seeds_high: Fraction | None = None


def mean_interval(scores: Scores, level: float = 0.95, counting: Counting = counts) -> Interval:
    """An interval for the mean accuracy over seeds and items like those at hand.

    The variance is that of the crossed design (`spread`); the multiple is Student's t, whose
    degrees of freedom lie between seeds - 1 and items - 1 by the share of either in the variance
    (their harmonic mean: Satterthwaite's own rule covers only 0.92 with three seeds). It is laid
    around the mean on the scale of the log-odds and as Clopper and Pearson's of as many items as
    have that variance (Korn and Graubard 1998), and the farther limit is kept, because near 0 and
    1 either alone falls short. Seeds that agree on 0 or 1 have the exact interval of the items.

    Coverage is measured, in docs/reference/simulations.md and tests/core/test_coverage.py: with
    3, 5 and 10 seeds at least 0.94 and, away from 0 and 1, at most 0.97, whether seeds, items or
    neither differ, and for accuracies that lie to one side as Beta(9, 1) does. Not covered is what
    no seed at hand shows: where one seed in five fails, three seeds all succeed half of the time,
    and the interval holds the truth 0.49 of the time (`unseen_failure_rate`). Two seeds are
    covered 0.91 to 0.97; one seed says nothing about other seeds. The limits over all seeds are
    the union of these and those of `unseen.Evidence`, which hold whatever the seeds' distribution.
    """
    _check_level(level)
    counted = counting(scores, scores.seeds)
    limits = counted.seen_limits(level)
    return _interval(limits, counted.accuracies.tolist(), counted.evidence, level)


def seed_interval(correct: Sequence[int], total: Sequence[int], level: float = 0.95) -> Interval:
    """An interval from counts alone: `correct[i]` of `total[i]` items for seed i.

    For where the outcome of every item is not at hand; `mean_interval` is narrower, because it
    knows how far seeds fail on the same items. This one allows for all seeds sharing their hard
    items: it reaches as far as Student's t over the accuracies of the seeds, and at least as far
    as one seed's items do. Both are laid around the mean as in `mean_interval`.

    Raises `ValueError` for lists of unequal length, for none, and for impossible counts.
    """
    limits = seed_limits(correct, total, level)
    accuracies = [right / items for right, items in zip(correct, total, strict=True)]
    import numpy as np  # only for those who compute

    return _interval(limits, accuracies, evidence(np.asarray(accuracies)), level)


def seed_limits(
    correct: Sequence[int], total: Sequence[int], level: float = 0.95
) -> tuple[float, float]:
    """Return `low` and `high` of `seed_interval` without its limits over all seeds.

    Those take as long again, and a list of many means does not show them.
    """
    _check(correct, total, level)
    accuracies = [right / items for right, items in zip(correct, total, strict=True)]
    mean = math.fsum(accuracies) / len(accuracies)
    if len(accuracies) == 1 or mean in (0.0, 1.0):
        limits = clopper_pearson(mean * min(total), min(total), level)
    else:
        items = normal_quantile((1 - level) / 2) * math.sqrt(mean * (1 - mean) / min(total))
        limits = around(mean, max(items, _student_reach(accuracies, mean, level)), level)
    return _around_mean(limits, mean)


def unseen_failure_rate(seeds: int, level: float = 0.95) -> float:
    """The largest share of failing seeds that `seeds` successes in a row leave possible.

    1 - (1 - level)^(1/seeds): 63 % for 3 seeds and 26 % for 10. No interval for the mean knows of
    failures that none of its seeds showed.
    """
    return 1 - (1 - level) ** (1 / seeds)


def _interval(
    limits: tuple[float, float], accuracies: Sequence[float], seen: Evidence, level: float
) -> Interval:
    mean = math.fsum(accuracies) / len(accuracies)
    low, high = _around_mean(limits, mean)
    all_low, all_high = seen.limits(level)
    return Interval(
        mean=mean,
        low=low,
        high=high,
        level=level,
        seeds=len(accuracies),
        over_items_only=min(accuracies) == max(accuracies),
        all_seeds_low=min(low, all_low),
        all_seeds_high=max(high, all_high),
    )


def _around_mean(limits: tuple[float, float], mean: float) -> tuple[float, float]:
    """The limits within [0, 1], with the mean between them."""
    return max(0.0, min(limits[0], mean)), min(1.0, max(limits[1], mean))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"A confidence level lies between 0 and 1; {level} does not.")


def _check(correct: Sequence[int], total: Sequence[int], level: float) -> None:
    if len(correct) != len(total) or not correct:
        raise ValueError(
            f"Give one count of right items and one total a seed, not {len(correct)} "
            f"and {len(total)}."
        )
    _check_level(level)
    for right, items in zip(correct, total, strict=True):
        if items < 1 or not 0 <= right <= items:
            raise ValueError(f"{right} right of {items} items is not a score.")


def _student_reach(values: Sequence[float], mean: float, level: float) -> float:
    freedom = len(values) - 1
    variance = math.fsum((value - mean) ** 2 for value in values) / freedom
    return student_quantile(freedom, (1 + level) / 2) * math.sqrt(variance / len(values))
