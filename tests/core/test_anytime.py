"""Evidence that holds at every look, by algebra and enumeration.

Expectations are sums over all outcomes of worlds whose seeds succeed or fail, weighted with their
chances: no randomness is involved.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import pytest

from adaptlab.statistics import Scores
from adaptlab.statistics.anytime import (
    BETS,
    CAPITAL,
    OF_TWO,
    STAKES,
    Order,
    item_reach,
    least_seeds,
    level,
    order,
)

ITEMS = 100
TAIL = 0.01
REACH = 2 * (1 - TAIL ** (1 / ITEMS))
"""Of methods whose seeds agree on all items."""


def scores(method: str, accuracies: Sequence[float], first_seed: int = 2) -> Scores:
    """Return seeds that answer the first items right, and no others."""
    import numpy as np

    rows = [np.arange(ITEMS) < round(ITEMS * accuracy) for accuracy in accuracies]
    return Scores(
        method=method,
        seeds=tuple(range(first_seed, first_seed + len(rows))),
        items=ITEMS,
        outcomes=tuple(np.packbits(row).tobytes().hex() for row in rows),
    )


def pair(first: Sequence[float], second: Sequence[float]) -> Order:
    return order(scores("a", first), scores("b", second), TAIL)


@functools.cache
def capital(first: int, second: int, seeds: int, gap: float) -> float:
    """Return the capital of these successes, against a gap of the means."""
    ones = pair([1.0] * first + [0.0] * (seeds - first), [1.0] * second + [0.0] * (seeds - second))
    return math.exp(ones.evidence(gap - ones.item_reach))


def test_capital_of_certain_success_against_certain_failure_is_that_of_algebra():
    def by_hand(seeds: int, gap: float) -> float:
        total = 0.0
        for centre, stake, share in BETS:
            room = max(centre, 1 - centre) + gap / 2
            first = 1 + stake * (1 - centre - gap / 2) / room
            second = 1 + stake * (centre - gap / 2) / room
            total += OF_TWO * share * (first * second) ** seeds
        mean = (1 + gap) / 2
        for stake, share in zip(STAKES, CAPITAL, strict=True):
            total += (1 - OF_TWO) * share * (1 - stake + stake / mean) ** seeds
        return total

    for seeds, exceeds in ((1, 0.0), (3, 0.0), (5, 0.2), (4, -0.3)):
        found = pair([1.0] * seeds, [0.0] * seeds)
        assert found.item_reach == pytest.approx(REACH)
        expected = math.log(by_hand(seeds, exceeds + REACH))
        assert found.evidence(exceeds) == pytest.approx(expected)


def test_every_bet_begins_with_a_share_of_one():
    assert sum(bet.capital for bet in BETS) == pytest.approx(1)
    assert sum(CAPITAL) == pytest.approx(1)
    assert all(0 < bet.stake < 1 for bet in BETS)
    assert all(0 < stake < 1 for stake in STAKES)


@pytest.mark.parametrize(
    ("first", "second"),
    [(0.5, 0.5), (0.1, 0.1), (0.9, 0.9), (0.3, 0.6), (0.8, 0.5), (0.99, 0.79), (0.2, 0.9)],
)
def test_capital_is_one_at_most_if_the_statement_only_just_fails(first: float, second: float):
    for seeds in (1, 2, 3):
        expected = 0.0
        for ours, theirs in itertools.product(range(seeds + 1), repeat=2):
            chance = _binomial(ours, seeds, first) * _binomial(theirs, seeds, second)
            expected += chance * capital(ours, theirs, seeds, first - second)
        assert 0.3 < expected <= 1 + 1e-12


def test_methods_that_agree_within_seeds_lose_no_validity_and_opposed_ones_do():
    def expected(both: float, either: float) -> float:
        """Return the expectation, by chances that both or one succeed."""
        return (
            both * capital(1, 1, 1, 0.0)
            + either * (capital(1, 0, 1, 0.0) + capital(0, 1, 1, 0.0))
            + (1 - both - 2 * either) * capital(0, 0, 1, 0.0)
        )

    assert expected(both=0.25, either=0.25) <= 1
    assert expected(both=0.4, either=0.1) < expected(both=0.25, either=0.25)
    assert expected(both=0.5, either=0.0) < 1
    assert expected(both=0.0, either=0.5) > 1.5


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_a_false_statement_is_ever_shown_with_at_most_the_chance_allowed(mean: float):
    """Count the chance that capital reaches 20 at any of 16 looks."""
    threshold, crossed = 20.0, 0.0
    chances = {(0, 0): 1.0}
    for seeds in range(1, 17):
        following: dict[tuple[int, int], float] = {}
        for (ours, theirs), chance in chances.items():
            for won, lost in itertools.product((0, 1), repeat=2):
                place = ours + won, theirs + lost
                step = (mean if won else 1 - mean) * (mean if lost else 1 - mean)
                following[place] = following.get(place, 0.0) + chance * step
        chances = {}
        for place, chance in following.items():
            if capital(*place, seeds, 0.0) >= threshold:
                crossed += chance
            else:
                chances[place] = chance
    assert crossed + sum(chances.values()) == pytest.approx(1)
    assert 0.001 < crossed <= 1 / threshold


def test_stronger_statements_have_less_evidence():
    found = pair([0.9, 1.0, 0.0, 0.8], [0.1, 0.3, 0.6, 0.0])
    shifts = [-0.9 + 0.05 * step for step in range(37)]
    logs = [found.evidence(shift) for shift in shifts]
    assert all(weaker > stronger for weaker, stronger in itertools.pairwise(logs))


def test_the_order_of_seeds_does_not_matter():
    first, second = [0.9, 1.0, 0.0, 0.8], [0.1, 0.3, 0.6, 0.0]
    expected = pair(first, second).evidence(0.1)
    for places in itertools.islice(itertools.permutations(range(4)), 5, 24, 6):
        again = pair([first[place] for place in places], [second[place] for place in places])
        assert again.evidence(0.1) == pytest.approx(expected)


def test_only_seeds_of_both_methods_count():
    longer = order(scores("a", [0.9, 1.0, 0.2, 0.1, 0.0]), scores("b", [0.1, 0.3, 0.5]), TAIL)
    assert longer.seeds == 3
    assert longer.evidence() == pytest.approx(pair([0.9, 1.0, 0.2], [0.1, 0.3, 0.5]).evidence())


def test_a_projection_is_the_evidence_of_the_same_seeds_again():
    first, second = [0.9, 1.0, 0.4], [0.1, 0.3, 0.6]
    once, twice = pair(first, second), pair(first * 2, second * 2)
    assert once.evidence(0.05, times=2) == pytest.approx(twice.evidence(0.05))
    one, two = level(scores("a", first), TAIL), level(scores("a", first * 2), TAIL)
    assert one.above(0.2, times=2) == pytest.approx(two.above(0.2))


def test_evidence_on_one_mean_is_that_of_algebra_and_fair():
    seeds = level(scores("a", [1.0] * 4), TAIL)
    at = 0.3 + 1 - TAIL ** (1 / ITEMS)
    expected = sum(
        share * (1 - stake + stake / at) ** 4 for stake, share in zip(STAKES, CAPITAL, strict=True)
    )
    assert math.exp(seeds.above(0.3)) == pytest.approx(expected)
    mirrored = level(scores("a", [0.0] * 4), TAIL)
    assert mirrored.below(0.7) == pytest.approx(seeds.above(0.3))
    for mean in (0.1, 0.5, 0.9):
        total = 0.0
        for successes in range(4):
            found = level(scores("a", [1.0] * successes + [0.0] * (3 - successes)), TAIL)
            chance = _binomial(successes, 3, mean)
            total += chance * math.exp(found.above(mean - found.item_reach))
        assert total == pytest.approx(1)
    assert seeds.above(1.0) == mirrored.below(0.0) == -math.inf


def test_items_reach_as_far_as_their_variance_or_as_unseen_ones_allow():
    import numpy as np

    alike = np.ones(1000)
    assert item_reach(alike, 0.001, width=2) == pytest.approx(2 * (1 - 0.001**0.001))
    half = np.repeat([0.0, 1.0], 500)
    # Student's t of 999 degrees of freedom: 3.0984 leaves 0.1 % (scipy.stats.t.isf).
    deviation = math.sqrt(0.25 * 1000 / 999 / 1000)
    assert item_reach(half, 0.001, width=2) == pytest.approx(3.0984 * deviation, rel=1e-4)
    assert item_reach(half, 0.01, width=2) < item_reach(half, 0.001, width=2)
    assert item_reach(np.ones(1), 0.001, width=2) == pytest.approx(1.998)


@pytest.mark.parametrize(("threshold", "seeds"), [(2.0, 1), (44.4, 4), (267.0, 5), (1e6, 11)])
def test_fewest_seeds_that_can_show_anything(threshold: float, seeds: int):
    assert least_seeds(math.log(threshold)) == seeds
    best = pair([1.0] * seeds, [0.0] * seeds)
    assert best.evidence(-best.item_reach) >= math.log(threshold)
    if seeds > 1:
        fewer = pair([1.0] * (seeds - 1), [0.0] * (seeds - 1))
        assert fewer.evidence(-fewer.item_reach) < math.log(threshold)


def test_methods_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match="no seed in common"):
        order(scores("a", [1.0]), scores("b", [0.0], first_seed=9), TAIL)
    short = Scores(method="b", seeds=(2,), items=8, outcomes=("ff",))
    with pytest.raises(ValueError, match="100 items and b on 8"):
        order(scores("a", [1.0]), short, TAIL)


def _binomial(successes: int, seeds: int, mean: float) -> float:
    return math.comb(seeds, successes) * mean**successes * (1 - mean) ** (seeds - successes)
