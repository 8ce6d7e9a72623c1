"""Limits of a check's figures over the replicates of a base and items."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from adaptlab.statistics import PairedDifference, Scores, paired_difference
from adaptlab.statistics.limits import clopper_pearson, difference_reach
from adaptlab.statistics.spread import spread

LEVEL = 0.95

Limits = tuple[float, float]


def share_limits(counts: Sequence[int], total: int) -> tuple[Limits, ...]:
    """Return the limits of a share for every replicate.

    They are Clopper and Pearson's, and hold for all replicates together at `LEVEL` (Bonferroni).
    """
    level = 1 - (1 - LEVEL) / len(counts)
    return tuple(clopper_pearson(count, total, level) for count in counts)


def difference_of_shares(first: Tensor, second: Tensor) -> PairedDifference:
    """Return the difference of two shares of the same items, [R, B] bools."""
    return paired_difference(_scores("first", first), _scores("second", second), LEVEL)


def mean_limits(differences: Tensor) -> Limits:
    """Return the limits of the mean of differences [R, B] of items.

    They are those of a paired difference over seeds like those measured; with one replicate, over
    items alone.
    """
    found = spread(differences.double().numpy())
    reach = difference_reach(found, found.item_part, (1 - LEVEL) / 2)
    return found.mean - reach, found.mean + reach


def _scores(name: str, outcomes: Tensor) -> Scores:
    rows = [np.packbits(row.numpy()).tobytes().hex() for row in outcomes.bool()]
    seeds, items = outcomes.shape
    return Scores(method=name, seeds=tuple(range(seeds)), items=items, outcomes=tuple(rows))
