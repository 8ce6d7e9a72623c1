"""Axes of budgets, and the search for the largest size within one."""

from collections.abc import Callable
from typing import Literal

BudgetAxis = Literal["trainable_parameters", "context_tokens"]
"""What a budget limits: the parameters that are trained, or the positions that are added."""

PARAMETERS: BudgetAxis = "trainable_parameters"
TOKENS: BudgetAxis = "context_tokens"
UNITS: dict[BudgetAxis, str] = {PARAMETERS: "parameters", TOKENS: "context tokens"}
"""The unit of each axis, in the plural."""
LIMITED: dict[BudgetAxis, str] = {**UNITS, PARAMETERS: "trainable parameters"}
"""What a budget on each axis limits."""


def in_units(amount: int, axis: BudgetAxis) -> str:
    """Return a budget in words: 512, or 8 context tokens."""
    return f"{amount:,}" if axis == PARAMETERS else f"{amount:,} {UNITS[axis]}"


def largest_within(budget: int, cost: Callable[[int], int], largest: int) -> int:
    """Return the largest size from 1 to `largest` that costs at most `budget`.

    Size 1 must be within the budget, and a larger size must not cost less than a smaller one. If
    the cost is linear, it is evaluated three or four times, otherwise a few times more often than
    by bisection. It is always evaluated for the result.
    """
    least = cost(1)
    second = min(max(budget // max(least, 1), 2), largest)  # exact if cost is proportional to size
    more = cost(second) - least
    low, high = (second, largest) if least + more <= budget else (1, second - 1)
    expected = 1 + (budget - least) * (second - 1) // max(more, 1)  # exact if cost is linear
    likely = iter((min(expected, largest), expected + 1))
    while low < high:  # low is always within the budget
        halfway = (low + high + 1) // 2
        size = next((guess for guess in likely if low < guess <= high), halfway)
        low, high = (size, high) if cost(size) <= budget else (low, size - 1)
    return low
