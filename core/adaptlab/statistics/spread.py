"""The uncertainty of a mean over seeds and items."""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics.scores import Outcomes

NORMAL = NormalDist()

LEAST_ITEM_SHARE = 0.5
"""No interval is narrower than this share of the interval over items alone.

The spread of three seeds is sometimes tiny by chance, and so is an interval from it alone.
"""


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over seeds × items and the parts of its variance.

    `seed_part` is the variance of the seeds' means divided by their number: it estimates the
    contribution of seeds together with the rest. `item_part` is the additional contribution of
    items, because some are harder for all seeds. `rest` is the part of `seed_part` that would
    remain if all seeds were alike. One seed has only an item part.
    """

    mean: float
    seed_part: float
    item_part: float
    rest: float
    seeds: int
    items: int

    @property
    def variance(self) -> float:
        """The estimated variance of the mean over new seeds and new items."""
        return self.seed_part + self.item_part

    @property
    def items_only(self) -> float:
        """The variance that the mean would have if all seeds were alike."""
        return self.rest + self.item_part


@dataclass(frozen=True, slots=True)
class Squares:
    """Sums of squares of seeds' deviations, items' deviations and cells."""

    by_seed: float
    by_item: float
    cells: float


def spread(values: "Outcomes | NDArray[Any]") -> Spread:
    """Return the mean of `values` [seed, item] and its variance.

    It is a crossed random-effects analysis. With mean squares MS_s of seeds, MS_i of items and MS_r
    of the rest (Cornfield and Tukey 1956; Brennan, Generalizability Theory, 2001, chapter 3) over
    n_s seeds and n_i items: seed_part = MS_s / (n_s n_i), rest = MS_r / (n_s n_i), and item_part =
    max(0, MS_i - MS_r) / (n_s n_i).
    """
    seeds, items = values.shape
    mean = float(values.mean())
    by_seed, by_item = values.mean(axis=1) - mean, values.mean(axis=0) - mean
    squares = Squares(
        by_seed=float(by_seed @ by_seed),
        by_item=float(by_item @ by_item),
        cells=float(np.square(values).sum()),
    )
    return spread_of(mean, squares, seeds, items)


def spread_of(mean: float, squares: Squares, seeds: int, items: int) -> Spread:
    """Return the same as `spread` from sums of squares."""
    item_square = seeds * squares.by_item / max(items - 1, 1)
    if seeds == 1:
        return Spread(mean, 0.0, item_square / items, 0.0, 1, items)
    total = squares.cells - seeds * items * mean**2
    seed_square = items * squares.by_seed / (seeds - 1)
    explained = (seeds - 1) * seed_square + max(items - 1, 1) * item_square
    left = max(0.0, total - explained) / ((seeds - 1) * max(items - 1, 1))
    cells = seeds * items
    return Spread(
        mean=mean,
        seed_part=seed_square / cells,
        item_part=max(0.0, item_square - left) / cells,
        rest=left / cells,
        seeds=seeds,
        items=items,
    )


def normal_quantile(tail: float) -> float:
    """Return the standard normal quantile that leaves `tail` above it."""
    return -NORMAL.inv_cdf(tail)
