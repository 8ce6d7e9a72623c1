"""Outcomes as whole numbers: what the analysis of a difference needs, counted once a method.

A table of 30 methods at 32 budgets has 14,000 pairs and 32 million outcomes. The means of a
difference are differences of means, and its square needs one number more: how many outcomes are
right in both, which is counted 64 at a time. `spread` of the outcomes themselves says the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from adaptlab.statistics.limits import seen_limits
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import Spread, Squares, spread_of
from adaptlab.statistics.unseen import Evidence, evidence

if TYPE_CHECKING:  # numpy is loaded by who computes: a server that lists jobs saves 20 MB
    import numpy as np
    from numpy.typing import NDArray

Seeds = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Counts:
    """How many outcomes of a method are right, by seed and by item; `words` are all its bits."""

    by_seed: "NDArray[np.int32]"
    by_item: "NDArray[np.int32]"
    words: "NDArray[np.uint64]"

    @cached_property
    def right(self) -> int:
        """All of them."""
        return int(self.by_seed.sum())

    @cached_property
    def accuracies(self) -> "NDArray[np.float64]":
        """The share of items that each seed got right."""
        return self.by_seed / self.by_item.size

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence of the seeds' accuracies about the mean over all seeds."""
        return evidence(self.accuracies)

    @cached_property
    def spread(self) -> Spread:
        """How uncertain the mean accuracy is over seeds like these."""
        seeds, items = self.by_seed.size, self.by_item.size
        mean = self.right / (seeds * items)
        by_seed, by_item = self.accuracies - mean, self.by_item / seeds - mean
        squares = Squares(float(by_seed @ by_seed), float(by_item @ by_item), self.right)
        return spread_of(mean, squares, seeds, items)

    @cached_property
    def _limits(self) -> dict[float, tuple[float, float]]:
        return {}

    def seen_limits(self, level: float) -> tuple[float, float]:
        """Return the limits of the mean accuracy over seeds like these; each is computed once."""
        if level not in self._limits:
            self._limits[level] = seen_limits(self.spread, level)
        return self._limits[level]

    def shared(self, other: "Counts") -> int:
        """How many are right here and there."""
        import numpy as np

        return int(np.bitwise_count(self.words & other.words).sum())


Counting = Callable[[Scores, Seeds], Counts]


def counts(scores: Scores, seeds: Seeds) -> Counts:
    """The outcomes of the given seeds, counted."""
    import numpy as np

    bits = scores.bits(seeds)
    packed = np.packbits(bits)
    words = np.zeros(-(-packed.size // 8) * 8, np.uint8)
    words[: packed.size] = packed
    return Counts(
        by_seed=bits.sum(axis=1, dtype=np.int32),
        by_item=bits.sum(axis=0, dtype=np.int32),
        words=words.view(np.uint64),
    )


class Remembered:
    """Counts made once: for a comparison, in which a row meets many others and has its own name."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int | None, Seeds], Counts] = {}

    def __call__(self, scores: Scores, seeds: Seeds) -> Counts:
        """The counts, as by `counts`."""
        key = (scores.method, scores.budget, seeds)
        if key not in self._known:
            self._known[key] = counts(scores, seeds)
        return self._known[key]


@dataclass(frozen=True, eq=False)
class Gap:
    """How much more often `first` is right than `second`, on the same seeds and items."""

    first: Counts
    second: Counts

    @property
    def seeds(self) -> int:
        """How many."""
        return self.first.by_seed.size

    @property
    def items(self) -> int:
        """How many."""
        return self.first.by_item.size

    @cached_property
    def mean(self) -> float:
        """The difference as a share of the items."""
        return (self.first.right - self.second.right) / (self.seeds * self.items)

    @cached_property
    def by_seed(self) -> "NDArray[np.float64]":
        """The mean difference of each seed."""
        return (self.first.by_seed - self.second.by_seed) / self.items

    @cached_property
    def by_item(self) -> "NDArray[np.float64]":
        """The mean difference on each item."""
        return (self.first.by_item - self.second.by_item) / self.seeds

    @cached_property
    def squares(self) -> Squares:
        """What its spread is made of."""
        return self.products(self)

    def products(self, other: "Gap") -> Squares:
        """What `squares` is for a gap and itself, for two: sums of products of their deviations."""
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
        """How uncertain the mean difference is."""
        return spread_of(self.mean, self.squares, self.seeds, self.items)


class Between:
    """Everything from one gap to another, drawn straight: a share of the one, the rest the other.

    Its squares are a parabola in that share, of which three points are enough.
    """

    def __init__(self, start: Gap, end: Gap) -> None:
        self._start, self._end = start, end

    @cached_property
    def _crossed(self) -> Squares:
        return self._start.products(self._end)

    def spread(self, share: float) -> Spread:
        """How uncertain the difference is where `share` of the way has been gone."""
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
