"""The largest size that a budget pays for, found by few looks at what sizes cost."""

from collections.abc import Callable


def largest_within(budget: int, cost: Callable[[int], int], largest: int) -> int:
    """The largest size from 1 to `largest` that costs at most `budget`, which 1 must do.

    A larger size must not cost less than a smaller one. Where each costs the same more than the
    one before, three or four costs are asked for; otherwise some more than halving takes. That of
    the size that is found is always among them.
    """
    least = cost(1)
    second = min(max(budget // max(least, 1), 2), largest)  # right if cost is in proportion to size
    more = cost(second) - least
    low, high = (second, largest) if least + more <= budget else (1, second - 1)
    expected = 1 + (budget - least) * (second - 1) // max(more, 1)  # right if costs are on a line
    likely = iter((min(expected, largest), expected + 1))
    while low < high:  # low stays within the budget throughout
        halfway = (low + high + 1) // 2
        size = next((one for one in likely if low < one <= high), halfway)
        low, high = (size, high) if cost(size) <= budget else (low, size - 1)
    return low
