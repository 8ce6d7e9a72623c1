"""Warnings about a plan whose seeds or test items decide little."""

from math import ceil, sqrt
from statistics import NormalDist

from adaptlab.figures import counted
from adaptlab.statistics.leads import ERROR, FEWEST_SEEDS

DISAGREEMENT = 0.1
"""Assumed share of items on which two good methods disagree, as those of a benchmark often do."""
POWER = 0.8
COARSE = 0.05
"""A difference that every plan should be able to decide, as a share of the items."""


def few_seeds(seeds: int, methods: int) -> tuple[str, ...]:
    """Return a warning if so few seeds cannot show which method is better."""
    if seeds >= FEWEST_SEEDS or methods < 2:
        return ()
    return (
        f"{counted(seeds, 'seed')} cannot show which of {methods} methods is better, whatever the "
        f"scores: plan {FEWEST_SEEDS} or more.",
    )


def few_items(items: int, methods: int) -> tuple[str, ...]:
    """Return a warning if so few test items decide only large differences.

    Args:
        items: the number of test items that are scored.
        methods: the number of methods whose order is in question.
    """
    if methods < 2 or not items or (least := decidable(items, methods)) <= COARSE:
        return ()
    needed = ceil(items * (least / COARSE) ** 2)
    return (
        f"{items:,} test items rarely decide differences below about {100 * least:.0f} points, "
        f"however many seeds there are. For {100 * COARSE:.0f} points it takes about {needed:,}: "
        "add records, or enlarge the test split.",
    )


def decidable(items: int, methods: int) -> float:
    """Return the smallest difference that so many items decide in 80 %.

    The difference of two methods' shares of right items has the variance d/n, if they disagree on
    the share d of n items. The best is ahead of each of k - 1 others at the error/(k - 1).
    """
    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - ERROR / (methods - 1)) + normal.inv_cdf(POWER)
    return quantiles * sqrt(DISAGREEMENT / items)
