"""Tests that a seed of one method usually beats a seed of another.

The statement is P(a seed of A beats a seed of B) > 1/2, for seeds and items that were not run. No
single test of it is both valid for a few seeds and strong, so a lead takes four:

- the exact rank-sum test (Mann and Whitney 1947), for seeds of the same law;
- its studentised form (Brunner and Munzel 2000), for seeds of unlike laws;
- Welch's t over seeds with the variance of items, each with its own quantile (Graybill and Wang
  1980): without it, a difference of the items that were drawn looks like one of the methods;
- sign tests of either method's seeds against the other's median, for methods that fail on some of
  their seeds: n seeds that all win have a probability of 2⁻ⁿ if half of all seeds fail.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics.distributions import student_quantile, student_tail, where_rising
from adaptlab.statistics.samples import Sample, item_variance
from adaptlab.statistics.spread import normal_quantile

ERROR = 0.05
"""The share of tables in which the best method may be lost, or a pair may be ordered falsely."""
LUCK = 1 / 16
"""The chance that any of the methods seen to fail on half of their seeds won them all by luck."""
FEWEST_SEEDS = 5
"""Fewer seeds that all win have a probability above `ERROR` if half of all seeds fail."""
LEAST_TAIL = 1e-12
"""Smaller tails are reported as this one: no model of seeds is accurate that far out."""
CLEAR_GAP = 2.0
"""A gap between seeds is one between modes if it is this many times the seeds' own range."""
MANY_UNITS = 200
"""From this many units on, the quantile of their part is the normal one."""


@dataclass(frozen=True, slots=True)
class Lead:
    """One-sided p-values of "the first method's seeds beat the second's".

    `two_part` is Welch's t over seeds and items, `ranks` the larger of both rank tests, and `wins`
    and `losses` are the sign tests of the first and of the second method's seeds.
    """

    two_part: float
    ranks: float
    wins: float
    losses: float

    def holds(self, tail: float, straddling: int = 0) -> bool:
        """Return True if the lead is shown with an error of at most `tail`.

        The t-test bounds the error for smooth laws. The rank tests need twice the tail, at most
        `ERROR`, and the sign tests `ERROR`, since only one method is the best and can be lost.
        `straddling` are the other methods whose seeds are seen on both sides of the second's: any
        of them might have won by luck, so together they get `LUCK`.
        """
        return (
            self.two_part <= tail
            and self.ranks <= min(ERROR, 2 * tail)
            and self.wins <= ERROR
            and self.wins * (1 + straddling) <= LUCK
            and self.losses <= ERROR
        )


NO_LEAD = Lead(1.0, 1.0, 1.0, 1.0)


def lead(first: Sample, second: Sample) -> Lead:
    """Return the tests that `first` beats `second`."""
    if first.mean <= second.mean or min(first.seeds, second.seeds) < FEWEST_SEEDS:
        return NO_LEAD
    above = first.values[:, None] > second.values[None, :]
    wins = above + 0.5 * (first.values[:, None] == second.values[None, :])  # [first, second]
    return Lead(
        two_part=two_part_tail(first, second, item_variance(first, second)),
        ranks=max(_rank_sum_tail(wins), _studentised_tail(wins)),
        wins=_sign_tail(first.values, second.median),
        losses=_sign_tail(-second.values, -first.median),
    )


def straddles(one: Sample, around: Sample) -> bool:
    """Return True if all seeds of `one` lie apart on both sides of `around`.

    The gap between its lower and its higher seeds is more than `CLEAR_GAP` times the range of the
    seeds in the gap, so chance among seeds of one law hardly makes it.
    """
    low, high = float(around.values.min()), float(around.values.max())
    below, above = one.values[one.values < low], one.values[one.values > high]
    if not below.size or not above.size or below.size + above.size < one.seeds:
        return False
    width = max(high - low, 2 * around.noise)
    return float(above.min() - below.max()) > CLEAR_GAP * width


def two_part_tail(first: Sample, second: Sample, items: float) -> float:
    """Return the tail at which the limits of the difference just reach zero.

    The limits are √(t² s + q² a), with the variances s of seeds and a of items, Student's t of
    Welch's degrees of freedom and q of the units.
    """
    seeds = first.of_mean + second.of_mean
    square = (first.mean - second.mean) ** 2
    freedom = welch_freedom(first, second)
    units = first.units

    def reached(student: float) -> float:
        quantile = unit_quantile(units, student_tail(freedom, student))
        return student**2 * seeds + quantile**2 * items

    high = _far(freedom)
    if reached(high) <= square:
        return LEAST_TAIL
    if square == 0:
        return 0.5
    return max(LEAST_TAIL, student_tail(freedom, where_rising(reached, square, 1e-9, high)))


def welch_freedom(first: Sample, second: Sample) -> float:
    """Return Welch's degrees of freedom, at least those of the fewer seeds."""
    least = min(first.seeds, second.seeds) - 1
    parts = first.of_mean**2 / (first.seeds - 1) + second.of_mean**2 / (second.seeds - 1)
    if parts <= 0:
        return float(least)
    return max(float(least), round((first.of_mean + second.of_mean) ** 2 / parts, 1))


@functools.lru_cache(maxsize=4096)
def unit_quantile(units: int, tail: float) -> float:
    """Return the quantile of items or clusters that leaves `tail` above it."""
    tail = max(LEAST_TAIL / 10, min(tail, 0.5))
    if units >= MANY_UNITS or tail == 0.5:
        return normal_quantile(tail)
    return student_quantile(max(1, units - 1), 1 - tail)


def _sign_tail(values: NDArray[np.float64], centre: float) -> float:
    """Return P(at least as many of n fair coins win as seeds above `centre`).

    Seeds below it are near misses and count as wins if most seeds are above it and no gap between
    modes separates both.
    """
    seeds, wins = values.size, int((values > centre).sum())
    if seeds > wins > seeds / 2 and not _has_modes(values, centre):
        wins = seeds
    return sum(math.comb(seeds, count) for count in range(wins, seeds + 1)) / 2**seeds


def _has_modes(values: NDArray[np.float64], centre: float) -> bool:
    """Return True if the seeds on both sides of `centre` lie far apart."""
    below, above = values[values <= centre], values[values > centre]
    many = above if above.size >= below.size else below
    return float(above.min() - below.max()) > CLEAR_GAP * float(many.max() - many.min())


def _rank_sum_tail(wins: NDArray[np.float64]) -> float:
    """Return the exact tail of the number of pairs that the first wins.

    Ties count half, and are treated as if there were none, which makes the tail larger.
    """
    return float(_tails(*wins.shape)[math.floor(float(wins.sum()))])


@functools.lru_cache(maxsize=256)
def _tails(first: int, second: int) -> NDArray[np.float64]:
    """Return P(U ≥ u) of Mann and Whitney's U for seeds of one law, [u]."""
    row = [np.ones(1) for _ in range(second + 1)]
    for ours in range(1, first + 1):
        new = [np.ones(1)]
        for theirs in range(1, second + 1):
            ways = np.zeros(ours * theirs + 1)
            ways[theirs : theirs + row[theirs].size] += row[theirs]
            ways[: new[-1].size] += new[-1]
            new.append(ways)
        row = new
    return np.cumsum((row[second] / row[second].sum())[::-1])[::-1]


def _studentised_tail(wins: NDArray[np.float64]) -> float:
    """Return Brunner and Munzel's tail: their share of pairs won against t."""
    share, (ours, theirs) = float(wins.mean()), wins.shape
    if share <= 0.5:
        return 1.0
    first = float(wins.mean(axis=1).var(ddof=1)) / ours
    second = float(wins.mean(axis=0).var(ddof=1)) / theirs
    if first + second <= 0:
        return 0.0
    parts = first**2 / (ours - 1) + second**2 / (theirs - 1)
    freedom = round((first + second) ** 2 / parts, 1)
    return student_tail(freedom, (share - 0.5) / math.sqrt(first + second))


@functools.lru_cache(maxsize=256)
def _far(freedom: float) -> float:
    """Return a value that Student's t exceeds below `LEAST_TAIL`."""
    value = 8.0
    while student_tail(freedom, value) > LEAST_TAIL:
        value *= 2
    return value
