"""The number of more seeds that should decide between two methods."""

import math
from dataclasses import dataclass

from adaptlab.figures import counted
from adaptlab.statistics.pairs import PairedDifference, projected_reach
from adaptlab.statistics.spread import normal_quantile
from adaptlab.statistics.unseen import least_p_value

POWER = 0.8
MOST_SEEDS = 64
"""The seeds that one job can have; an order that needs more is not worth the attempt."""
VARIANCE_TAIL = 0.1
"""Tail on either side of the interval of variances that gives the range of seeds."""


@dataclass(frozen=True, slots=True)
class MoreSeeds:
    """The likely number of more seeds, in a range.

    The range is open above if `high` is None.
    """

    low: int
    likely: int
    high: int | None

    @property
    def text(self) -> str:
        """The range in words: "4 to 20 more seeds (about 9)"."""
        if self.high == self.low:
            return counted(self.low, "more seed")
        if self.high is None:
            seeds = "seed" if self.low == 1 else "seeds"
            return f"at least {self.low} more {seeds} (about {self.likely})"
        return f"{self.low} to {self.high} more seeds (about {self.likely})"


def more_seeds(pair: PairedDifference, tail: float, false_better: float) -> MoreSeeds | None:
    """Return the number of more seeds that should decide.

    They should do so in four of five repetitions. Every number assumes that more seeds show no
    failures of a new kind. The likely number uses the difference without the part that chance adds
    to its square, δ² = d² - s² - a with the variances of seeds and items: undecided differences are
    measured too large as often as too small, and those measured too large look as if few seeds
    would do. The ends of the range use the variance of seeds at the ends of its 80 % interval
    (chi-square with n - 1 degrees of freedom); the lower end uses the difference as measured. None
    if the likely number is beyond `MOST_SEEDS`, or the difference is no larger than chance alone
    makes it.
    """
    measured = abs(pair.difference)
    shrunk = math.sqrt(max(0.0, measured**2 - pair.seed_part - pair.item_part))
    freedom = pair.seeds - 1
    small = freedom / _chi_square(freedom, 1 - VARIANCE_TAIL)
    large = freedom / max(_chi_square(freedom, VARIANCE_TAIL), 1e-3)
    likely = _needed(pair, shrunk, 1.0, tail, false_better)
    if likely is None:
        return None
    low = _needed(pair, measured, small, tail, false_better)
    high = _needed(pair, shrunk, large, tail, false_better)
    return MoreSeeds(low or likely, likely, high)


def _needed(
    pair: PairedDifference, size: float, factor: float, tail: float, false_better: float
) -> int | None:
    """Return the least number of more seeds that decides both tests."""
    unseen = pair.unseen_evidence / pair.seeds
    scaled = pair.model_copy(update={"seed_part": factor * pair.seed_part})
    for seeds in range(pair.seeds + 1, MOST_SEEDS + 1):
        if least_p_value(seeds) > false_better or math.exp(-unseen * seeds) > tail:
            continue
        if size >= projected_reach(scaled, seeds, tail, 1 - POWER):
            return seeds - pair.seeds
    return None


def _chi_square(freedom: int, probability: float) -> float:
    """Return the chi-square quantile by Wilson and Hilferty (1931).

    It is within 7 % from 2 degrees of freedom on.
    """
    step = normal_quantile(1 - probability) * math.sqrt(2 / (9 * freedom))
    return freedom * max(0.0, 1 - 2 / (9 * freedom) + step) ** 3
