"""Evidence that holds at every look, by algebra and enumeration."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.core.scoring import scores as of_rows

from adaptlab.statistics import Scores
from adaptlab.statistics.anytime import (
    CAPITAL,
    STAKES,
    Order,
    item_reach,
    least_seeds,
    level,
    order,
)

ITEMS, TAIL = 100, 0.01
REACH = 2 * (1 - TAIL ** (1 / ITEMS))
"""Of methods whose seeds agree on all items."""


def scores(method: str, accuracies: Sequence[float], first_seed: int = 2) -> Scores:
    """Return seeds that answer the first items right, and no others."""
    rows = [np.arange(ITEMS) < round(ITEMS * accuracy) for accuracy in accuracies]
    return of_rows(np.stack(rows), method, first_seed=first_seed)


def pair(first: Sequence[float], second: Sequence[float]) -> Order:
    return order(scores("a", first), scores("b", second), TAIL)


def by_hand(wins: int, losses: int) -> float:
    return sum(
        share * (1 + stake) ** wins * (1 - stake) ** losses
        for stake, share in zip(STAKES, CAPITAL, strict=True)
    )


def test_capital_is_that_of_algebra_and_begins_with_one() -> None:
    assert math.fsum(CAPITAL) == pytest.approx(1)
    found = pair([1, 1, 1, 0], [0, 0, 0, 1]).evidence()
    assert math.exp(found) == pytest.approx(by_hand(3, 1))
    assert pair([0.5] * 6, [0.5] * 6).evidence(-REACH) == pytest.approx(0)  # ties


@pytest.mark.parametrize("wins", [0.5, 0.3])
def test_a_false_statement_is_ever_shown_with_at_most_the_chance_allowed(wins: float) -> None:
    """Exactly, over all courses of 40 seeds, with a look after each."""
    threshold = 20

    @functools.cache
    def ever(won: int, lost: int) -> float:
        if by_hand(won, lost) >= threshold:
            return 1.0
        if won + lost == 40:
            return 0.0
        return wins * ever(won + 1, lost) + (1 - wins) * ever(won, lost + 1)

    assert ever(0, 0) <= 1 / threshold


def test_a_gap_of_twenty_points_is_shown_whatever_the_variance() -> None:
    """Bets on means never showed 85 ± 3 against 75 ± 3 within 40 seeds."""
    generator = np.random.Generator(np.random.Philox(key=1))
    first, second = generator.normal(0.85, 0.01, 10), generator.normal(0.65, 0.01, 10)
    assert pair(first.tolist(), second.tolist()).evidence() > math.log(100)


def test_stronger_statements_have_less_evidence_and_projections_are_the_same_seeds_again() -> None:
    found = pair([0.9, 0.8, 0.95], [0.2, 0.3, 0.1])
    assert found.evidence(0.7) <= found.evidence(0.3) <= found.evidence()
    twice = pair([0.9, 0.8, 0.95] * 2, [0.2, 0.3, 0.1] * 2)
    assert found.evidence(times=2) == pytest.approx(twice.evidence())


def test_only_seeds_of_both_methods_count() -> None:
    found = order(scores("a", [1, 1, 1]), scores("b", [0, 0], first_seed=3), TAIL)
    assert found.seeds == 2


def test_evidence_on_one_method_is_about_its_typical_seed() -> None:
    found = level(scores("a", [0.9, 0.8, 0.95, 0.2]), TAIL)
    assert math.exp(found.above(0.3)) == pytest.approx(by_hand(3, 1))
    assert math.exp(found.below(0.3)) == pytest.approx(by_hand(1, 3))


def test_items_reach_as_far_as_their_variance_or_as_unseen_ones_allow() -> None:
    assert item_reach(np.zeros(ITEMS), TAIL, 2) == pytest.approx(REACH)
    spread = np.repeat([1.0, -1.0], ITEMS // 2)
    assert item_reach(spread, TAIL, 2) == pytest.approx(2.365 * 1.005 / 10, abs=1e-3)


@pytest.mark.parametrize(("threshold", "seeds"), [(20, 5), (45, 6), (120, 8)])
def test_fewest_seeds_that_can_show_anything(threshold: float, seeds: int) -> None:
    assert least_seeds(math.log(threshold)) == seeds
    assert by_hand(seeds, 0) >= threshold > by_hand(seeds - 1, 0)


def test_methods_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match="no seed in common"):
        order(scores("a", [1]), scores("b", [1], first_seed=9), TAIL)
    with pytest.raises(ValueError, match="score both on the same items"):
        order(of_rows([[1] * 8], "a"), of_rows([[1] * 9], "b"), TAIL)
