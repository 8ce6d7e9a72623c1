"""Outcomes as counts, counted once per method.

A table of 30 methods at 32 budgets has 14,000 pairs and 32 million outcomes. The means of a
difference are differences of means, and its square needs one more number: the outcomes that are
right in both, which are counted 64 at a time. `spread` of the outcomes gives the same result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import Spread, Squares, spread_of
from adaptlab.statistics.unseen import LikelihoodRatios, evidence

Seeds = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Counts:
    """Right outcomes of a method by seed and item, and all of them."""

    by_seed: NDArray[np.int32]
    by_item: NDArray[np.int32]
    words: NDArray[np.uint64]
    bits: NDArray[np.uint8]

    @cached_property
    def right(self) -> int:
        """The number of right outcomes."""
        return int(self.by_seed.sum())

    @cached_property
    def accuracies(self) -> NDArray[np.float64]:
        """The share of items that each seed answered correctly, [seed]."""
        return self.by_seed / self.by_item.size

    @cached_property
    def evidence(self) -> LikelihoodRatios:
        """The evidence about the mean over all seeds from the seeds' accuracies."""
        return evidence(self.accuracies)

    @cached_property
    def spread(self) -> Spread:
        """The uncertainty of the mean accuracy over seeds like these."""
        seeds, items = self.by_seed.size, self.by_item.size
        mean = self.right / (seeds * items)
        by_seed, by_item = self.accuracies - mean, self.by_item / seeds - mean
        squares = Squares(float(by_seed @ by_seed), float(by_item @ by_item), self.right)
        return spread_of(mean, squares, seeds, items)

    def shared(self, other: "Counts") -> int:
        """Return the number of outcomes that are right in both."""
        return int(np.bitwise_count(self.words & other.words).sum())


Counting = Callable[[Scores, Seeds], Counts]


def counts(scores: Scores, seeds: Seeds) -> Counts:
    """Return the counts of the outcomes of the given seeds."""
    bits = scores.bits(seeds)
    packed = np.packbits(bits)
    words = np.zeros(-(-packed.size // 8) * 8, np.uint8)
    words[: packed.size] = packed
    return Counts(
        by_seed=bits.sum(axis=1, dtype=np.int32),
        by_item=bits.sum(axis=0, dtype=np.int32),
        words=words.view(np.uint64),
        bits=bits,
    )


class Remembered:
    """A cache of counts for one comparison with many pairs.

    Rows are identified by method and budget.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int | None, Seeds], Counts] = {}

    def __call__(self, scores: Scores, seeds: Seeds) -> Counts:
        """Return the same as `counts`."""
        key = (scores.method, scores.budget, seeds)
        if key not in self._counts:
            self._counts[key] = counts(scores, seeds)
        return self._counts[key]


@dataclass(frozen=True, eq=False)
class Gap:
    """The difference of two methods' outcomes on the same seeds and items."""

    first: Counts
    second: Counts

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return self.first.by_seed.size

    @property
    def items(self) -> int:
        """The number of items."""
        return self.first.by_item.size

    @cached_property
    def mean(self) -> float:
        """The mean difference, as a share of the items."""
        return (self.first.right - self.second.right) / (self.seeds * self.items)

    @cached_property
    def by_seed(self) -> NDArray[np.float64]:
        """The mean difference of each seed, [seed]."""
        return (self.first.by_seed - self.second.by_seed) / self.items

    @cached_property
    def by_item(self) -> NDArray[np.float64]:
        """The mean difference on each item, [item]."""
        return (self.first.by_item - self.second.by_item) / self.seeds

    @cached_property
    def squares(self) -> Squares:
        """The sums of squares of its deviations."""
        return self.products(self)

    def products(self, other: "Gap") -> Squares:
        """Return the sums of products of two gaps' deviations.

        Of a gap with itself, they are `squares`.
        """
        here, there = self.first, self.second
        by_seed, by_item = self.by_seed - self.mean, self.by_item - self.mean
        return Squares(
            by_seed=float(by_seed @ (other.by_seed - other.mean)),
            by_item=float(by_item @ (other.by_item - other.mean)),
            cells=here.shared(other.first)
            - here.shared(other.second)
            - there.shared(other.first)
            + there.shared(other.second),
        )

    def spread(self) -> Spread:
        """Return the uncertainty of the mean difference."""
        return spread_of(self.mean, self.squares, self.seeds, self.items)


class Between:
    """The linear interpolation between two gaps.

    Its sums of squares are a parabola in the share, so three values determine them.
    """

    def __init__(self, start: Gap, end: Gap) -> None:
        self._start, self._end = start, end

    @cached_property
    def _crossed(self) -> Squares:
        return self._start.products(self._end)

    def spread(self, share: float) -> Spread:
        """Return the uncertainty of the difference at `share` of the way."""
        start, end = self._start, self._end
        mean = (1 - share) * start.mean + share * end.mean
        parts = (start.squares, self._crossed, end.squares)
        weights = ((1 - share) ** 2, 2 * share * (1 - share), share**2)
        squares = Squares(
            by_seed=sum(w * part.by_seed for w, part in zip(weights, parts, strict=True)),
            by_item=sum(w * part.by_item for w, part in zip(weights, parts, strict=True)),
            cells=sum(w * part.cells for w, part in zip(weights, parts, strict=True)),
        )
        return spread_of(mean, squares, start.seeds, start.items)
