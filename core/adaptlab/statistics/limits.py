"""Limits of means and differences over seeds like those run."""

import math

from adaptlab.statistics.distributions import beta_quantile, student_quantile
from adaptlab.statistics.spread import LEAST_ITEM_SHARE, Spread, normal_quantile


def seen_limits(spread: Spread, level: float) -> tuple[float, float]:
    """Return the limits of a mean over seeds like those run."""
    if spread.seeds == 1 or spread.mean in (0.0, 1.0):
        return clopper_pearson(spread.mean * spread.items, spread.items, level)
    return around(spread.mean, _reach(spread, level), level)


def _reach(spread: Spread, level: float) -> float:
    """Return the largest plausible error of the mean.

    It is computed at the mean's own variance.
    """
    tail = (1 - level) / 2
    least = LEAST_ITEM_SHARE * normal_quantile(tail) * math.sqrt(spread.items_only)
    share = spread.seed_part / spread.variance if spread.variance else 0.0
    freedom = 1 / (share / (spread.seeds - 1) + (1 - share) / max(spread.items - 1, 1))
    return max(least, student_quantile(freedom, 1 - tail) * math.sqrt(spread.variance))


def around(mean: float, reach: float, level: float) -> tuple[float, float]:
    """Return limits for a share inside (0, 1) with an error of `reach`."""
    room = mean * (1 - mean)
    odds, step = math.log(mean / (1 - mean)), reach / room
    items = room * (normal_quantile((1 - level) / 2) / reach) ** 2
    low, high = clopper_pearson(mean * items, items, level)
    return min(low, _share(odds - step)), max(high, _share(odds + step))


def _share(odds: float) -> float:
    """Return the share whose log-odds are `odds`."""
    if odds >= 0:
        return 1 / (1 + math.exp(-odds))
    return math.exp(odds) / (1 + math.exp(odds))


def clopper_pearson(right: float, items: float, level: float) -> tuple[float, float]:
    """Return Clopper and Pearson's limits (Biometrika, 1934).

    `items` may be fractional.
    """
    tail = (1 - level) / 2
    low = 0.0 if right <= 0 else beta_quantile(right, items - right + 1, tail)
    high = 1.0 if right >= items else beta_quantile(right + 1, items - right, 1 - tail)
    return low, high


def difference_reach(spread: Spread, item_part: float, tail: float) -> float:
    """Return the largest plausible error of a mean difference.

    `tail` is left out on each side. Seeds and items have a quantile each (Howe 1974; Graybill and
    Wang 1980); items alone set the least reach.
    """
    normal = normal_quantile(tail)
    if spread.seeds == 1:
        return normal * math.sqrt(item_part)
    student = student_quantile(spread.seeds - 1, 1 - tail) if tail < 0.5 else 0.0
    least = LEAST_ITEM_SHARE * normal * math.sqrt(spread.rest + item_part)
    return max(least, math.sqrt(student**2 * spread.seed_part + normal**2 * item_part))
