"""Evidence about means over all seeds that holds at every look.

A study that looks at its results after each pass, and stops when it likes them, is wrong far more
often than the level of a test for a fixed number of seeds. The evidence here is an e-process: if a
statement is false, the chance that the evidence for it *ever* reaches 1/α is at most α (Ville
1939), at whatever moments one looks and for whatever reason one stops.

It is made by betting (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting", JRSS-B 2024). Against "the first mean x is at most the second, y, plus δ", each seed
multiplies capital by (1 + λ (x - p - δ/2)) (1 - λ (y - p + δ/2)), for a centre p and a stake λ that
keep both factors from becoming negative. If the statement holds, the expectation is at most
(1 + λ u) (1 - λ u) ≤ 1, with u the first mean less p + δ/2. For two methods whose seeds succeed or
fail, the best p and λ give the largest growth that any e-process has (Turner, Ly and Grünwald,
"Generic E-variables for exact sequential k-sample tests", JSPI 2024). The capital of several bets
is added.

Nothing is assumed about the distribution of scores, so seeds that fail now and then, and failures
that no seed has shown yet, are allowed for.
"""

import functools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from adaptlab.statistics.counts import Counting, Gap, Seeds, counts
from adaptlab.statistics.distributions import student_quantile
from adaptlab.statistics.scores import Scores

if TYPE_CHECKING:  # numpy is loaded on first use: a server that lists jobs saves 20 MB
    import numpy as np
    from numpy.typing import NDArray


class Bet(NamedTuple):
    """A bet that two means are on different sides of a centre.

    `stake` is the share of the largest stake that cannot lose more than all, and `capital` that
    with which it begins.
    """

    centre: float
    stake: float
    capital: float


OF_TWO = 0.9
"""The capital of bets on each method's scores; the rest bets on their differences within seeds."""
BETS = (
    Bet(0.5, 0.99, 0.32),
    Bet(0.5, 0.65, 0.18),
    Bet(0.38, 0.97, 0.13),
    Bet(0.62, 0.97, 0.13),
    Bet(0.22, 0.97, 0.08),
    Bet(0.78, 0.97, 0.08),
    Bet(0.1, 0.9, 0.04),
    Bet(0.9, 0.9, 0.04),
)
"""The bets on two methods; most capital on those that decide clear cases early."""
STAKES = (0.3, 0.6, 0.85, 0.99)
"""The stakes of bets on one mean, against one value."""
CAPITAL = (0.15, 0.25, 0.3, 0.3)
"""The capital with which each of them begins."""
NEAREST_ZERO = 1e-7
"""The least mean against which a bet is made."""


@dataclass(frozen=True, eq=False)
class Order:
    """The evidence on two methods, for statements that one exceeds the other.

    Both were scored on the same seeds and items. Seeds are independent draws, and those of the two
    methods are independent or agree rather than oppose each other; statements are about the means
    over all seeds and items. `item_tail` is the chance with which a statement may be wrong because
    of the choice of items, which later looks do not raise, since the items stay the same.
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
        """Return the log evidence that first - second > `exceeds` > -1.

        With `times`, it is the evidence that as many times the seeds would give if they scored as
        those that were run: a projection, not evidence.
        """
        shift = exceeds + self.item_reach
        if shift not in self._grown:  # a projection asks for the same growth many times
            self._grown[shift] = self._growth(shift)
        return _log_mixture(self._grown[shift], _of_order(), times)

    @cached_property
    def _grown(self) -> "dict[float, NDArray[np.float64]]":
        return {}

    def _growth(self, exceeds: float) -> "NDArray[np.float64]":
        """Return the log growth of each bet, [bet].

        The first ones are on both methods, the others on differences within seeds.
        """
        import numpy as np

        half = exceeds / 2
        centre, stake = _centres_and_stakes()  # [bet, 1]
        stake = stake / (np.maximum(centre, 1 - centre) + half)
        first, second = self.gap.first.accuracies, self.gap.second.accuracies
        growth = (1 + stake * (first - centre - half)) * (1 - stake * (second - centre + half))
        by_method = np.log(growth).sum(axis=1)
        # It needs no independence of the two methods: -1 to 1 becomes 0 to 1.
        within = _growth((1 + self.gap.by_seed) / 2, (1 + exceeds) / 2)
        return np.concatenate([by_method, within])


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
    return Order(Gap(counting(first, shared), counting(second, shared)), item_tail)


@dataclass(frozen=True, eq=False)
class Level:
    """The evidence on one method, for statements about its mean alone.

    `accuracies` are those of its seeds.
    """

    accuracies: "NDArray[np.float64]"
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
        """Return the log evidence that the mean exceeds `level`."""
        return _log_mixture(_growth(self.accuracies, level + self.item_reach), CAPITAL, times)

    def below(self, level: float, times: float = 1.0) -> float:
        """Return the log evidence that the mean is below `level`."""
        logs = _growth(1 - self.accuracies, 1 - level + self.item_reach)
        return _log_mixture(logs, CAPITAL, times)


def level(scores: Scores, item_tail: float, counting: Counting = counts) -> Level:
    """Return the evidence on one method's mean."""
    counted = counting(scores, scores.seeds)
    reach = item_reach(counted.by_item / len(scores.seeds), item_tail, width=1)
    return Level(counted.accuracies, reach)


def item_reach(by_item: "NDArray[np.float64]", tail: float, width: float) -> float:
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
    """Return the least number of seeds that can reach a log threshold.

    It is that of a method that always succeeds against one that never does.
    """
    import numpy as np

    ones, zeros = np.ones(1), np.zeros(1)
    centre, stake = _centres_and_stakes()
    stake = stake / np.maximum(centre, 1 - centre)
    by_method = np.log((1 + stake * (ones - centre)) * (1 - stake * (zeros - centre))).sum(axis=1)
    growth = np.concatenate([by_method, _growth(ones, 0.5)])
    seeds = 1
    while _log_mixture(growth, _of_order(), seeds) < log_threshold:
        seeds += 1
    return seeds


@functools.cache
def _centres_and_stakes() -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Return the centres and stakes of the bets on two methods, each [bet, 1]."""
    import numpy as np

    return np.array([[bet.centre] for bet in BETS]), np.array([[bet.stake] for bet in BETS])


@functools.cache
def _of_order() -> tuple[float, ...]:
    """Return the capital of all bets on two methods."""
    return (*(OF_TWO * bet.capital for bet in BETS), *((1 - OF_TWO) * one for one in CAPITAL))


@functools.lru_cache(maxsize=256)
def _quantile(freedom: int, tail: float) -> float:
    return student_quantile(freedom, 1 - tail)


def _growth(scores: "NDArray[np.float64]", mean: float) -> "NDArray[np.float64]":
    """Return the log growth of each stake, against a mean of at most `mean`.

    Nothing is bet against a mean that no score can exceed.
    """
    import numpy as np

    if mean >= 1:
        return np.full(len(STAKES), -np.inf)
    gains = scores / max(mean, NEAREST_ZERO) - 1
    return np.log1p(np.multiply.outer(STAKES, gains)).sum(axis=1)


def _log_mixture(growth: "NDArray[np.float64]", capital: tuple[float, ...], times: float) -> float:
    """Return the log of all bets' capital after `times` their growth."""
    import numpy as np

    return float(np.logaddexp.reduce(times * growth + np.log(capital)))
