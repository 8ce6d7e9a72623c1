"""Evidence about typical seeds that holds at every look.

A study that looks at its results after each pass, and stops when it likes them, is wrong far more
often than the level of a test for a fixed number of seeds. The evidence here is an e-process: if a
statement is false, the chance that the evidence for it *ever* reaches 1/α is at most α (Ville
1939), at whatever moments one looks and for whatever reason one stops.

It is made by betting on signs. Against "a seed of the first beats one of the second, by more than
δ, no more often than it loses", each seed on which both were trained multiplies capital by 1 + λ if
the first wins, by 1 - λ if it loses, and by 1 at a tie: the expectation is at most 1. The capital
of several stakes λ is added. Nothing is assumed about the law of scores, so seeds that fail now and
then are allowed for, and a gap counts in full however small the variance of seeds would have to be
for a test of means.
"""

import functools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics.counts import Counting, Gap, Seeds, counts
from adaptlab.statistics.distributions import student_quantile
from adaptlab.statistics.pairs import shared_seeds
from adaptlab.statistics.scores import Scores

STAKES = (0.4, 0.75, 0.99)
"""Shares of the capital that a bet puts on each seed."""
CAPITAL = (0.15, 0.25, 0.6)
"""The capital with which each of them begins; most decides clear cases early."""


@dataclass(frozen=True, eq=False)
class Order:
    """The evidence on two methods, for statements that one beats the other.

    Both were scored on the same seeds and items, and pairs of seeds are independent draws.
    `item_tail` is the chance with which a statement may be wrong because of the choice of items,
    which later looks do not raise, since the items stay the same.
    """

    gap: Gap
    item_tail: float

    @property
    def seeds(self) -> int:
        """The number of seeds that count."""
        return self.gap.seeds

    @cached_property
    def item_reach(self) -> float:
        """By how much the items' mean difference may exceed that of all items."""
        return item_reach(self.gap.by_item, self.item_tail, width=2)

    def evidence(self, exceeds: float = 0.0, times: float = 1.0) -> float:
        """Return the log evidence that the first usually wins by `exceeds`.

        With `times`, it is the evidence that as many times the seeds would give if they scored as
        those that were run: a projection, not evidence.
        """
        return _log_capital(self.gap.by_seed - exceeds - self.item_reach, times)


def order(
    first: Scores,
    second: Scores,
    item_tail: float,
    counting: Counting = counts,
    seeds: Seeds | None = None,
) -> Order:
    """Return the evidence on two methods, on the seeds that they share.

    Raises `ValueError` for scores on other items, and for scores without common seeds.
    """
    if first.items != second.items:
        raise ValueError(
            f"{first.label} was scored on {first.items:,} items and {second.label} on "
            f"{second.items:,}; score both on the same items."
        )
    shared = shared_seeds(first, second) if seeds is None else seeds
    if not shared:
        raise ValueError(
            f"{first.label} and {second.label} have no seed in common; run both with the same "
            "seeds."
        )
    return Order(Gap(counting(first, shared), counting(second, shared)), item_tail)


@dataclass(frozen=True, eq=False)
class Level:
    """The evidence on one method, for statements about its typical seed.

    `accuracies` are those of its seeds.
    """

    accuracies: NDArray[np.float64]
    item_reach: float

    @property
    def seeds(self) -> int:
        """The number of seeds that count."""
        return len(self.accuracies)

    @property
    def mean(self) -> float:
        """The mean accuracy over the seeds."""
        return float(self.accuracies.mean())

    def above(self, level: float, times: float = 1.0) -> float:
        """Return the log evidence that a typical seed exceeds `level`."""
        return _log_capital(self.accuracies - level - self.item_reach, times)

    def below(self, level: float, times: float = 1.0) -> float:
        """Return the log evidence that a typical seed is below `level`."""
        return _log_capital(level - self.accuracies - self.item_reach, times)


def level(scores: Scores, item_tail: float, counting: Counting = counts) -> Level:
    """Return the evidence on one method's typical seed."""
    counted = counting(scores, scores.trained)
    reach = item_reach(counted.by_item / len(scores.trained), item_tail, width=1)
    return Level(counted.accuracies, reach)


def item_reach(by_item: NDArray[np.float64], tail: float, width: float) -> float:
    """Return by how much the items' mean may exceed that of all items.

    It is Student's t √(v / items), with the variance v of the items' means over the seeds run. It
    is at least what unseen items allow: a share q of items of which none was drawn, with a chance
    (1 - q)^items of `tail`, moves the mean by at most q times the `width` of the scale.
    """
    items = len(by_item)
    unseen = width * (1 - tail ** (1 / items))
    if items < 2:
        return unseen
    return max(unseen, _quantile(items - 1, tail) * math.sqrt(float(by_item.var(ddof=1)) / items))


def least_seeds(log_threshold: float) -> int:
    """Return the fewest seeds that reach a log threshold if all win."""
    seeds = 1
    while _log_capital(np.ones(seeds), 1.0) < log_threshold:
        seeds += 1
    return seeds


@functools.lru_cache(maxsize=256)
def _quantile(freedom: int, tail: float) -> float:
    return student_quantile(freedom, 1 - tail)


def _log_capital(leads: NDArray[np.float64], times: float) -> float:
    """Return the log capital of all bets on leads, [seed]."""
    growth = np.log1p(np.multiply.outer(STAKES, np.sign(leads))).sum(axis=1)
    return float(np.logaddexp.reduce(times * growth + np.log(CAPITAL)))
