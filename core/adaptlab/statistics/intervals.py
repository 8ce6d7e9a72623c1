"""Intervals for a method's mean accuracy over seeds and test items."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adaptlab.interval import Interval
from adaptlab.statistics.counts import Counting, counts
from adaptlab.statistics.distributions import student_quantile
from adaptlab.statistics.leads import unit_quantile
from adaptlab.statistics.limits import around, clopper_pearson, seen_limits
from adaptlab.statistics.samples import clustered
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import Spread, normal_quantile, spread
from adaptlab.statistics.typical import Limits, ordered_limits
from adaptlab.statistics.unseen import LikelihoodRatios, evidence


def mean_interval(scores: Scores, level: float = 0.95, counting: Counting = counts) -> Interval:
    """Return an interval for the score of a typical seed on new items.

    It is the union of two. That of the mean over seeds and items has the variance of the crossed
    design (`spread`), multiplied by Student's t with degrees of freedom between seeds - 1 and
    items - 1, weighted by the shares of both in the variance; near 0 and 1, on the scale of the
    log-odds, and at least Clopper and Pearson's for as many items as have that variance (Korn and
    Graubard 1998). That of the median is between ordered seeds, with the part of the items, and
    holds for seeds of any law, failing ones included. Items in clusters count by cluster.

    Coverage is measured in docs/reference/simulations.md. The limits over all seeds are the union
    of these and those of `unseen.Evidence`, which hold for any law of the mean.
    """
    _check_level(level)
    outcomes = counting(scores, scores.trained)
    found = outcomes.spread
    if scores.clusters:
        found = spread(clustered(outcomes.bits, scores.clusters))
    return interval_of(found, outcomes.accuracies, outcomes.evidence, level)


def interval_of(
    found: Spread, accuracies: NDArray[np.float64], seen: LikelihoodRatios, level: float
) -> Interval:
    """Return the interval of `mean_interval` from the spread and seeds."""
    ends = seen_limits(found, level)
    if accuracies.size > 1:
        reach = unit_quantile(found.items, (1 - level) / 2) ** 2 * found.item_part
        ends = _wider(ends, _ordered(accuracies, reach, level))
    return _interval(ends, accuracies.tolist(), seen, level)


def _ordered(accuracies: NDArray[np.float64], square: float, level: float) -> Limits:
    """Return limits between ordered seeds, with the squared reach of items."""
    middle, (low, high) = float(np.median(accuracies)), ordered_limits(accuracies, level)
    return (
        middle - math.sqrt((middle - low) ** 2 + square),
        middle + math.sqrt((high - middle) ** 2 + square),
    )


def _wider(first: Limits, second: Limits) -> Limits:
    return min(first[0], second[0]), max(first[1], second[1])


def seed_interval(
    correct: Sequence[int],
    total: Sequence[int],
    level: float = 0.95,
    effective: Sequence[float] = (),
) -> Interval:
    """Return an interval from counts of right items per seed alone.

    Seed i has `correct[i]` of `total[i]` items right. If items are in groups, `effective[i]` is the
    number that counts. For use without the outcome of every item.
    `mean_interval` is narrower, because it uses how far seeds fail on the same items. This one
    assumes that all seeds share their hard items: its reach is that of Student's t over the
    accuracies of the seeds, and at least that of one seed's items. Both are applied around the mean
    as in `mean_interval`, and the limits reach as far as the ordered seeds.

    Raises `ValueError` for lists of unequal length, for empty lists, and for impossible counts.
    """
    limits = seed_limits(correct, total, level, effective)
    accuracies = [right / items for right, items in zip(correct, total, strict=True)]
    return _interval(limits, accuracies, evidence(np.asarray(accuracies)), level)


def seed_limits(
    correct: Sequence[int],
    total: Sequence[int],
    level: float = 0.95,
    effective: Sequence[float] = (),
) -> tuple[float, float]:
    """Return `low` and `high` of `seed_interval`.

    The limits over all seeds would double the time, and a list of many means does not show them.
    """
    _check(correct, total, level)
    accuracies = [right / items for right, items in zip(correct, total, strict=True)]
    mean = math.fsum(accuracies) / len(accuracies)
    fewest = min(effective or total)
    if len(accuracies) == 1 or mean in (0.0, 1.0):
        limits = clopper_pearson(mean * fewest, fewest, level)
    else:
        items = normal_quantile((1 - level) / 2) * math.sqrt(mean * (1 - mean) / fewest)
        limits = around(mean, max(items, _student_reach(accuracies, mean, level)), level)
    if len(accuracies) > 1:
        limits = _wider(limits, ordered_limits(accuracies, level))
    return _around_mean(limits, mean)


def unseen_failure_rate(seeds: int, level: float = 0.95) -> float:
    """Return the largest failure rate consistent with `seeds` successes.

    It is 1 - (1 - level)^(1/seeds): 63 % for 3 seeds and 26 % for 10. An interval for the mean
    over seeds like those run does not cover failures that none of its seeds showed.
    """
    return 1 - (1 - level) ** (1 / seeds)


def _interval(
    limits: tuple[float, float], accuracies: Sequence[float], seen: LikelihoodRatios, level: float
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
    """Return the limits within [0, 1], with the mean between them."""
    return max(0.0, min(limits[0], mean)), min(1.0, max(limits[1], mean))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"The confidence level {level} is not between 0 and 1.")


def _check(correct: Sequence[int], total: Sequence[int], level: float) -> None:
    if len(correct) != len(total) or not correct:
        raise ValueError(
            f"Give one count of right items and one total per seed, not {len(correct)} counts "
            f"and {len(total)} totals."
        )
    _check_level(level)
    for right, items in zip(correct, total, strict=True):
        if items < 1 or not 0 <= right <= items:
            raise ValueError(f"{right} right of {items} items is not a score.")


def _student_reach(values: Sequence[float], mean: float, level: float) -> float:
    freedom = len(values) - 1
    variance = math.fsum((value - mean) ** 2 for value in values) / freedom
    return student_quantile(freedom, (1 + level) / 2) * math.sqrt(variance / len(values))
