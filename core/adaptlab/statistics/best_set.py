"""The methods that may be the best for the next seed that is trained.

The best is the method whose seeds beat those of every other more often than not. A method leaves
the set if another beats it, each at its share of the error: with k methods, the best can be beaten
falsely by k - 1, and nothing else is an error, so no further correction is owed (Gupta 1965).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from adaptlab.statistics.leads import ERROR, NO_LEAD, Lead, lead, straddles
from adaptlab.statistics.samples import Sample


def of_leaders(level: float, best: int) -> float:
    """Return the level of one difference from the leader.

    The leader is chosen among the `best` methods that may be the best, for a score that is too good
    by chance if they are alike. So a difference from it is corrected for its choice (Bonferroni).
    """
    return 1 - (1 - level) / max(1, best - 1)


class BestSet:
    """The candidates of one table at one budget, compared with one another.

    Args:
        candidates: the samples of the methods by label. Methods that compute the same function are
            one candidate.
        others: samples that are compared with the candidates and cannot be the best, such as
            references beyond the budget.
        leading: returns the tests of a pair; sets of one table share one that remembers.
    """

    def __init__(
        self,
        candidates: Mapping[str, Sample],
        others: Mapping[str, Sample] | None = None,
        leading: Callable[[Sample, Sample], Lead] | None = None,
    ) -> None:
        self._candidates = dict(candidates)
        self._samples = {**(others or {}), **candidates}
        self._lead = leading or functools.cache(lead)

    @property
    def tail(self) -> float:
        """The error of one comparison: 5 % among all others.

        Of a pair it is half of that, or one of two equal methods would be called the best in a
        tenth of all tables.
        """
        return ERROR / max(2, len(self._candidates) - 1)

    def lead(self, first: str, second: str) -> Lead:
        """Return the tests that `first` beats `second`; no lead if on other items."""
        ours, theirs = self._samples[first], self._samples[second]
        if ours.units != theirs.units:
            return NO_LEAD
        return self._lead(ours, theirs)

    def straddling(self, first: str, second: str) -> int:
        """Return how many other methods have seeds on both sides of `second`."""
        around = self._samples[second]
        return sum(
            straddles(one, around)
            for label, one in self._candidates.items()
            if label not in (first, second)
        )

    def beats(self, first: str, second: str) -> bool:
        """Return True if `first` is shown to beat `second`."""
        tests = self.lead(first, second)
        if not tests.holds(self.tail):  # most pairs, which saves the search for the straddling
            return False
        return tests.holds(self.tail, self.straddling(first, second))

    @cached_property
    def best(self) -> Sequence[str]:
        """The labels of the methods that may be the best, in their order."""
        by_mean = sorted(self._candidates, key=lambda one: -self._candidates[one].mean)
        unbeaten = tuple(
            label
            for label in self._candidates
            if not any(self.beats(other, label) for other in by_mean if other != label)
        )
        # In a cycle every method is beaten, and no single best exists.
        return unbeaten or tuple(self._candidates)

    @cached_property
    def leader(self) -> str | None:
        """The method of the set with the highest median, then mean, score."""
        return max(
            self.best,
            key=lambda one: (self._candidates[one].median, self._candidates[one].mean),
            default=None,
        )
