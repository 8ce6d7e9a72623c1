"""Which rank a method can have, given which differences are told apart."""

from collections.abc import Iterable, Sequence

from adaptlab.values import Value


class RankInterval(Value):
    """The ranks that a method can have among the methods of one cell; 1 is the best.

    Simultaneous: when no method is wrongly called better, which happens in at least 95 of 100
    tables, every true rank lies inside (Al Mohamad, Goeman and van Zwet 2018).
    """

    low: int
    high: int


def rank_intervals(
    methods: Sequence[str], better: Iterable[tuple[str, str]]
) -> dict[str, RankInterval]:
    """The rank interval of every method, from the pairs (better, worse) that were told apart."""
    told = set(better)
    return {
        method: RankInterval(
            low=1 + sum((other, method) in told for other in methods),
            high=len(methods) - sum((method, other) in told for other in methods),
        )
        for method in methods
    }


def could_be_best(ranks: dict[str, RankInterval]) -> tuple[str, ...]:
    """The methods than which none was found better; it holds a best one as surely as the ranks.

    Where a cycle of findings leaves nobody, which paired tests allow, all could be best.
    """
    unbeaten = tuple(method for method, rank in ranks.items() if rank.low == 1)
    return unbeaten or tuple(ranks)
