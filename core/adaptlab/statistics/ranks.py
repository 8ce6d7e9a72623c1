"""The possible ranks of methods, given the pairs whose order is decided."""

from collections.abc import Iterable, Sequence

from adaptlab.values import Value


class RankInterval(Value):
    """The possible ranks of a method in one cell; 1 is the best.

    The intervals are simultaneous: if no method is wrongly called better, as in at least 95 of 100
    tables, they contain every true rank (Al Mohamad, Goeman and van Zwet 2018).
    """

    low: int
    high: int


def rank_intervals(
    methods: Sequence[str], better: Iterable[tuple[str, str]]
) -> dict[str, RankInterval]:
    """Return the rank interval of every method.

    `better` has the decided pairs, each as (better, worse).
    """
    decided = set(better)
    return {
        method: RankInterval(
            low=1 + sum((other, method) in decided for other in methods),
            high=len(methods) - sum((method, other) in decided for other in methods),
        )
        for method in methods
    }
