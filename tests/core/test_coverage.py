"""Promises of the statistics, checked on simulated studies.

The truth of these studies is known.

The long version, 2,000 studies a figure, is `python -m bench.statistics`, and its tables are in
docs/reference/simulations.md. Here each figure has fewer studies, and one standard deviation of
room; the generators are counted, so that no run differs from the one before.
"""

import pytest

from adaptlab.statistics import mean_interval
from bench.simulated import (
    World,
    alike,
    fixed,
    hard_items,
    logit_normal,
    lottery,
    normal_seeds,
    skewed_seeds,
    study,
)
from bench.statistics import (
    all_seeds_coverage,
    coverage,
    every_pair,
    false_better,
    false_order,
    power,
    said_alike,
)

STUDIES = 400
ROOM = (0.95 * 0.05 / STUDIES) ** 0.5


@pytest.mark.parametrize(
    ("world", "seeds"),
    [
        (alike(0.9), 3),
        (hard_items(0.8, 1), 3),
        (fixed(0.7), 3),
        (normal_seeds(0.8, 0.05), 3),
        (normal_seeds(0.8, 0.05), 10),
        (skewed_seeds(9, 1), 3),
    ],
)
def test_intervals_hold_the_truth_as_often_as_promised(world: World, seeds: int):
    found = coverage(world, seeds, 500, STUDIES)
    assert 0.94 - ROOM <= found <= 0.97 + ROOM


@pytest.mark.parametrize("accuracy", [0.0001, 0.001, 0.99])
def test_near_the_borders_they_hold_it_at_least_so_often(accuracy: float):
    assert coverage(alike(accuracy), 3, 500, 200) >= 0.94 - ROOM


@pytest.mark.parametrize("accuracy", [0.0, 1.0])
def test_at_the_borders_they_hold_it_always(accuracy: float):
    assert coverage(alike(accuracy), 3, 500, 1) == 1, "without chance, all studies are alike"


def test_what_no_seed_shows_is_not_covered():
    """The coverage is the figure that the docstring admits.

    The test fails if it gets better or worse unseen.
    """
    assert 0.43 <= coverage(lottery(0.2), 3, 500, STUDIES) <= 0.55


def test_a_student_interval_of_seeds_would_break_the_promises():
    """A Student interval of seeds shows that the bounds above can fail.

    Items that all seeds share are outside of it.
    """
    hits = 0
    for number in range(100):
        (scores,) = study({"method": fixed(0.7)}, 3, 500, number)
        row = scores.matrix().mean(axis=1)
        assert row.std() < 1e-12  # so that Student's interval has no width at all
        hits += abs(row.mean() - 0.7) < 1e-12
        found = mean_interval(scores)
        assert found.high - found.low > 0.05
    assert hits / 100 < 0.5


@pytest.mark.parametrize(
    ("world", "seeds"), [(normal_seeds(0.8, 0.05), 3), (hard_items(0.8, 1), 5)]
)
def test_a_table_of_equal_methods_says_better_once_in_twenty_at_most(world: World, seeds: int):
    studies = 120
    assert false_better(world, seeds, 300, studies) <= 0.05 + 3 * (0.05 * 0.95 / studies) ** 0.5


def test_without_the_correction_it_would_say_so_too_often():
    wrong = 0
    for number in range(60):
        names = {f"method {place}": normal_seeds(0.8, 0.05) for place in range(6)}
        rows = study(names, 3, 300, number)
        wrong += any((pair.seen_p or 1.0) <= 0.05 for pair in every_pair(rows))
    assert wrong / 60 > 0.2


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("five at 80 ± 1 %, one 100 % on 4 seeds of 5", 3),
        ("five at 90 ± 1 %, one 100 % on 9 seeds of 10", 5),
        ("a pair: log-odds' deviation 0 and 1.5, mean 99 %", 10),
    ],
)
def test_failures_that_no_seed_showed_are_no_reason_for_better(name: str, seeds: int):
    """The crossed analysis alone finds an order far too often.

    Means over all seeds are equal.
    """
    studies = 40
    before, after = false_order(name, seeds, studies)
    assert before > 0.15
    assert after <= 0.05


def test_limits_over_all_seeds_hold_where_seeds_fail_unseen():
    for world in (lottery(0.1, 1.0), lottery(0.2), logit_normal(0.99, 1.5)):
        seen, everything = all_seeds_coverage(world, 5, 200)
        assert seen < 0.93
        assert everything >= 0.95


def test_none_against_a_rare_success_is_not_called_alike_over_all_seeds():
    before, after = said_alike(3, 200)
    assert before > 0.2
    assert after == 0


def test_a_large_difference_is_found_with_ten_seeds_and_none_with_three():
    assert power(0.8, 10, 0.01, 40) > 0.8
    assert power(0.8, 3, 0.01, 40) == 0
    assert power(0.01, 10, 0.01, 40) < 0.1
