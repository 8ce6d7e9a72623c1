"""Pairs of rows in one comparison: shared cells, and what can pair."""

import itertools
from collections.abc import Iterator, Sequence

from adaptlab.statistics.pairs import shared_seeds
from adaptlab.statistics.scores import Scores


def can_pair(first: Scores, second: Scores) -> bool:
    """Return True if the rows have equal items, one metric and a shared seed."""
    is_alike = (first.items, first.metric) == (second.items, second.metric)
    return is_alike and bool(shared_seeds(first, second))


def comparable_pairs(rows: Sequence[Scores]) -> list[tuple[Scores, Scores]]:
    """Return every two rows that share a cell and can be paired, once."""
    return [(first, second) for first, second in _pairs(rows) if can_pair(first, second)]


def unpaired(rows: Sequence[Scores]) -> list[tuple[Scores, Scores]]:
    """Return every two rows that share a cell and cannot be paired, once."""
    return [(first, second) for first, second in _pairs(rows) if not can_pair(first, second)]


def _pairs(rows: Sequence[Scores]) -> Iterator[tuple[Scores, Scores]]:
    """Yield every two rows that share a cell.

    A row without a budget is in every cell.
    """
    for first, second in itertools.combinations(rows, 2):
        if None in (first.budget, second.budget) or first.budget == second.budget:
            yield first, second
