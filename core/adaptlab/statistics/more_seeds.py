"""The number of further seeds that should decide between two methods, as a range."""

import math
from dataclasses import dataclass

from adaptlab.statistics.pairs import PairedDifference, projected_reach
from adaptlab.statistics.spread import normal_quantile
from adaptlab.statistics.unseen import least_p_value

POWER = 0.8
MOST_SEEDS = 64
"""The seeds that one job can have; if so many would not do, it is hopeless to ask for more."""
VARIANCE_TAIL = 0.1
"""Left out on either side of the range of variances that the range of seeds rests on."""


@dataclass(frozen=True, slots=True)
class MoreSeeds:
    """Further seeds that should decide: the likely number in a range; no end if `high` is None."""

    low: int
    likely: int
    high: int | None

    @property
    def text(self) -> str:
        """The range in words: "4 to 20 more seeds (about 9)"."""
        if self.high == self.low:
            return f"{self.low} more seed{'' if self.low == 1 else 's'}"
        if self.high is None:
            return f"{self.low} more seeds or many more (about {self.likely})"
        return f"{self.low} to {self.high} more seeds (about {self.likely})"


def more_seeds(pair: PairedDifference, tail: float, false_better: float) -> MoreSeeds | None:
    """Return how many further seeds should decide, in four of five repetitions.

    Every number assumes that further seeds show no failures of a new kind. The likely number takes
    the difference without the part that chance adds to its square, δ² = d² - s² - a with the
    variances of seeds and items, because a difference that is not yet decided is found too large
    as often as too small, and the larger ones look as if few seeds would do. The ends of the range
    take the variance of seeds at the ends of its 80 % interval (chi-square with n - 1 degrees of
    freedom), the lower end with the difference as found. None if the likely number is beyond
    `MOST_SEEDS`, or the difference is no larger than chance alone makes it.
    """
    found = abs(pair.difference)
    shrunk = math.sqrt(max(0.0, found**2 - pair.seed_part - pair.item_part))
    freedom = pair.seeds - 1
    small = freedom / _chi_square(freedom, 1 - VARIANCE_TAIL)
    large = freedom / max(_chi_square(freedom, VARIANCE_TAIL), 1e-3)
    likely = _needed(pair, shrunk, 1.0, tail, false_better)
    if likely is None:
        return None
    low = _needed(pair, found, small, tail, false_better)
    high = _needed(pair, shrunk, large, tail, false_better)
    return MoreSeeds(low or likely, likely, high)


def _needed(
    pair: PairedDifference, size: float, factor: float, tail: float, false_better: float
) -> int | None:
    """The least number of further seeds with which both tests would decide."""
    unseen = pair.unseen_evidence / pair.seeds
    scaled = pair.model_copy(update={"seed_part": factor * pair.seed_part})
    for seeds in range(pair.seeds + 1, MOST_SEEDS + 1):
        if least_p_value(seeds) > false_better or math.exp(-unseen * seeds) > tail:
            continue
        if size >= projected_reach(scaled, seeds, tail, 1 - POWER):
            return seeds - pair.seeds
    return None


def _chi_square(freedom: int, probability: float) -> float:
    """The quantile by Wilson and Hilferty's cube (1931), within 7 % from two degrees on."""
    step = normal_quantile(1 - probability) * math.sqrt(2 / (9 * freedom))
    return freedom * max(0.0, 1 - 2 / (9 * freedom) + step) ** 3
