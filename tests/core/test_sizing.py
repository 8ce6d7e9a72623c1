"""The largest size within a budget, against trying them all.

Tests also cover how few costs are asked for.
"""

from itertools import accumulate

from hypothesis import example, given
from hypothesis import strategies as st

from adaptlab.plugins.sizing import largest_within


def tried(budget: int, costs: list[int]) -> int:
    """Return the last size whose cost is within the budget.

    The first cost is that of size 1.
    """
    return max(size for size, cost in enumerate(costs, 1) if cost <= budget)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60).map(accumulate).map(list), st.data())
def test_it_is_the_largest_of_any_costs_that_do_not_fall(
    costs: list[int], data: st.DataObject
) -> None:
    budget = data.draw(st.integers(costs[0], costs[-1] + 10))
    found = largest_within(budget, lambda size: costs[size - 1], len(costs))
    assert found == tried(budget, costs)


@given(
    start=st.integers(0, 10**9),
    step=st.integers(1, 10**9),
    largest=st.integers(1, 10**6),
    spare=st.integers(0, 10**15),
)
@example(start=0, step=16, largest=4096, spare=16)
@example(start=0, step=1, largest=4096, spare=10**15)
def test_costs_on_a_line_are_asked_for_four_times_at_most(
    start: int, step: int, largest: int, spare: int
) -> None:
    asked: list[int] = []

    def cost(size: int) -> int:
        asked.append(size)
        return start + step * size

    budget = start + step + spare
    assert largest_within(budget, cost, largest) == min(1 + spare // step, largest)
    assert len(asked) <= 4
    assert all(1 <= size <= largest for size in asked)


def test_a_first_size_beyond_the_budget_is_what_is_left() -> None:
    for cost in (lambda size: 10 * size, lambda _: 10):
        assert largest_within(5, cost, 8) == 1
