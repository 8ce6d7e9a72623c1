"""Evidence about means over all seeds that holds at every look.

A study that looks at its results after each pass, and stops when it likes them, is wrong far more
often than the level of a test for a fixed number of seeds. The evidence here is an e-process: if a
statement is false, the chance that the evidence for it *ever* reaches 1/α is at most α (Ville
1939), at whatever moments one looks and for whatever reason one stops.

It is made by betting (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting", JRSS-B 2024): against a mean of at most μ, capital is multiplied by 1 - c + c x / μ for
each seed's score x in [0, 1], and the capital of several shares c is added. It assumes nothing
about the distribution of scores, so seeds that fail now and then, and failures that no seed has
shown yet, are allowed for.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from adaptlab.statistics.counts import Counting, Gap, Seeds, counts
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import normal_quantile

if TYPE_CHECKING:  # numpy is loaded on first use: a server that lists jobs saves 20 MB
    import numpy as np
    from numpy.typing import NDArray

SHARES = (0.3, 0.6, 0.85, 0.99)
"""The shares of the capital that are bet on each seed."""
PRIOR = (0.15, 0.25, 0.3, 0.3)
"""The capital with which each share begins; most for the bets that decide clear cases early."""
OF_TWO = 0.8
"""The capital of bets on each method's scores; the rest bets on their differences within seeds."""
CELLS = 512
"""Intervals between tabulated means, narrower towards 0 and 1."""
NEAREST_END = 1e-7


@dataclass(frozen=True, eq=False)
class Bets:
    """The bets on one method's seeds.

    `above` is the log capital against means of at most μ, [share, mean], for the means of `means`,
    and `below` that against means of at least μ. Both are sums over seeds.
    """

    mean: float
    seeds: int
    above: "NDArray[np.float64]"
    below: "NDArray[np.float64]"


@functools.cache
def means() -> "NDArray[np.float64]":
    """Return the means at which capital is tabulated, inside (0, 1)."""
    import numpy as np

    inside = np.sin(np.linspace(0, math.pi / 2, CELLS + 1)) ** 2
    return np.clip(inside, NEAREST_END, 1 - NEAREST_END)


def bets(scores: "NDArray[np.float64]") -> Bets:
    """Return the bets on seeds' scores [seed], each between 0 and 1."""
    return Bets(
        mean=float(scores.mean()),
        seeds=len(scores),
        above=_against(scores, means()),
        below=_against(1 - scores, means())[:, ::-1],  # the means are symmetric about one half
    )


@dataclass(frozen=True, eq=False)
class Order:
    """The evidence on two methods, for statements that one exceeds the other.

    Both were scored on the same seeds and items. Seeds are independent draws, and those of the two
    methods are independent or agree rather than oppose each other; statements are about the means
    over all seeds and items. `item_tail` is the chance with which a statement may be wrong because
    of the choice of items, which later looks do not raise, since the items stay the same.
    """

    gap: Gap
    first: Bets
    second: Bets
    item_tail: float

    @cached_property
    def item_reach(self) -> float:
        """By how much the items' mean difference may exceed that of all items.

        It is z √(v / items), with the variance v of the items' mean differences over the seeds run,
        and at least that of a single item that differs.
        """
        items = self.gap.items
        by_item = self.gap.by_item
        variance = float(by_item.var(ddof=1)) / items if items > 1 else 1.0
        return normal_quantile(self.item_tail) * math.sqrt(max(variance, 1 / items**2))

    def evidence(self, exceeds: float = 0.0, times: float = 1.0) -> float:
        """Return the log evidence that first - second > `exceeds`.

        With `times`, it is the evidence that as many times the seeds would give if they scored as
        those that were run: a projection, not evidence.
        """
        by_method = self._by_method(exceeds + self.item_reach, times)
        within = self._within_seeds(exceeds + self.item_reach, times)
        return _log_sum(math.log(OF_TWO) + by_method, math.log(1 - OF_TWO) + within)

    def _by_method(self, exceeds: float, times: float) -> float:
        """Return the least capital of bets on both methods, over all means.

        The null is that the first mean is at most the second plus `exceeds`. Between two tabulated
        means, the lower capital of either side counts.
        """
        import numpy as np

        grid = means()
        above = _capital(self.first.above, times)
        below = _capital(self.second.below, times)
        # Of second means in [low, high], `below` is least at low, and `above` is at high + exceeds.
        low = np.concatenate(([0.0], grid))
        high = np.concatenate((grid, [1.0]))
        of_first = above[np.minimum(np.searchsorted(grid, high + exceeds), CELLS)]
        of_second = below[np.maximum(np.searchsorted(grid, low, side="right") - 1, 0)]
        return float((of_first + of_second).min())

    def _within_seeds(self, exceeds: float, times: float) -> float:
        """Return the capital of bets on the seeds' differences.

        It needs no independence of the two methods.
        """
        import numpy as np

        mean = (1 + exceeds) / 2
        if mean >= 1:
            return -math.inf
        differences = (1 + self.gap.by_seed) / 2
        return float(_capital(_against(differences, np.array([max(mean, NEAREST_END)])), times)[0])


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
    shared = tuple(seed for seed in first.seeds if seed in second.seeds) if seeds is None else seeds
    if not shared:
        raise ValueError(
            f"{first.label} and {second.label} have no seed in common; run both with the same "
            "seeds."
        )
    gap = Gap(counting(first, shared), counting(second, shared))
    return Order(gap, bets(gap.first.accuracies), bets(gap.second.accuracies), item_tail)


@dataclass(frozen=True, eq=False)
class Level:
    """The evidence on one method, for statements about its mean alone."""

    bets: Bets
    item_reach: float

    def above(self, level: float, times: float = 1.0) -> float:
        """Return the log evidence that the mean exceeds `level`."""
        return self._at(self.bets.above, level + self.item_reach, times, rising=False)

    def below(self, level: float, times: float = 1.0) -> float:
        """Return the log evidence that the mean is below `level`."""
        return self._at(self.bets.below, level - self.item_reach, times, rising=True)

    def _at(
        self, logs: "NDArray[np.float64]", level: float, times: float, *, rising: bool
    ) -> float:
        import numpy as np

        if not 0 < level < 1:
            return -math.inf
        place = int(np.searchsorted(means(), level, side="left"))
        # The tabulated mean on the side where the capital is less.
        place = max(0, place - 1) if rising else min(place, CELLS)
        return float(_capital(logs, times)[place])


def level(scores: Scores, item_tail: float, counting: Counting = counts) -> Level:
    """Return the evidence on one method's mean."""
    counted = counting(scores, scores.seeds)
    by_item = counted.by_item / len(scores.seeds)
    variance = float(by_item.var(ddof=1)) / scores.items if scores.items > 1 else 1.0
    reach = normal_quantile(item_tail) * math.sqrt(max(variance, 1 / scores.items**2))
    return Level(bets(counted.accuracies), reach)


def least_seeds(log_threshold: float) -> int:
    """Return the least number of seeds that can reach a log threshold.

    It is that of a method that always succeeds against one that never does.
    """
    seeds = 1
    while math.log(OF_TWO) + 2 * _log_mixture([seeds * math.log1p(c) for c in SHARES]) < (
        log_threshold
    ):
        seeds += 1
    return seeds


def _against(scores: "NDArray[np.float64]", at: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Return the log capital of bets against means of at most `at`.

    Shape [share, mean], from scores [seed].
    """
    import numpy as np

    gains = scores[None, :] / at[:, None] - 1  # [mean, seed]
    return np.stack([np.log1p(share * gains).sum(axis=1) for share in SHARES])


def _capital(logs: "NDArray[np.float64]", times: float) -> "NDArray[np.float64]":
    """Return the log of the capital of all shares together, [mean]."""
    import numpy as np

    return np.logaddexp.reduce(times * logs + np.log(PRIOR)[:, None], axis=0)


def _log_mixture(logs: Sequence[float]) -> float:
    most = max(logs)
    parts = (weight * math.exp(one - most) for weight, one in zip(PRIOR, logs, strict=True))
    return most + math.log(math.fsum(parts))


def _log_sum(first: float, second: float) -> float:
    most = max(first, second)
    if most == -math.inf:
        return most
    return most + math.log(math.exp(first - most) + math.exp(second - most))
