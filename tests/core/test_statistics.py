"""The interval over seeds, against scipy.stats and by simulation of its coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adaptlab.statistics import Interval, seed_interval


def clopper_pearson(right: int, items: int, level: float = 0.95) -> tuple[float, float]:
    found = stats.binomtest(right, items).proportion_ci(level, method="exact")
    return found.low, found.high


@pytest.mark.parametrize("right", [0, 1, 37, 99, 100])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_one_seed_has_the_exact_binomial_interval(right: int, level: float) -> None:
    found = seed_interval([right], [100], level)
    assert (found.low, found.high) == pytest.approx(clopper_pearson(right, 100, level), abs=1e-9)
    assert found.over_items_only
    assert found.seeds == 1


@pytest.mark.parametrize("correct", [[200, 500, 800], [120, 480, 350, 900, 610]])
def test_seeds_that_differ_have_the_interval_of_student(correct: list[int]) -> None:
    found = seed_interval(correct, [1000] * len(correct))
    accuracies = np.array(correct) / 1000
    low, high = stats.t.interval(
        0.95, len(correct) - 1, loc=accuracies.mean(), scale=stats.sem(accuracies)
    )
    assert found.low == pytest.approx(max(0.0, low), abs=1e-12)
    assert found.high == pytest.approx(min(1.0, high), abs=1e-12)
    assert not found.over_items_only


def test_seeds_that_agree_have_the_interval_of_their_pooled_items() -> None:
    found = seed_interval([900, 900, 900], [1000, 1000, 1000])
    assert (found.low, found.high) == pytest.approx(clopper_pearson(2700, 3000), abs=1e-9)


@pytest.mark.parametrize(("right", "limit"), [(0, "low"), (1000, "high")])
def test_all_wrong_and_all_right_still_have_a_width(right: int, limit: str) -> None:
    found = seed_interval([right] * 3, [1000] * 3)
    assert getattr(found, limit) == found.mean == right / 1000
    # The exact one-sided tail: (α/2)^(1/n) of 3000 items.
    assert found.high - found.low == pytest.approx(1 - 0.025 ** (1 / 3000), rel=1e-6)


def test_the_mean_is_over_seeds_and_inside() -> None:
    found = seed_interval([1, 5000], [10, 5000])
    assert found.mean == pytest.approx(0.55)
    assert found.low <= found.mean <= found.high


@given(
    st.lists(
        st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        min_size=1,
        max_size=12,
    ),
    st.floats(0.01, 0.999),
)
def test_the_interval_is_a_part_of_zero_to_one_around_the_mean(
    scores: list[tuple[int, int]], level: float
) -> None:
    found = seed_interval([c for c, _ in scores], [n for _, n in scores], level)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert math.isfinite(found.low)
    assert Interval.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("correct", "total", "level"),
    [
        ([], [], 0.95),
        ([1], [1, 2], 0.95),
        ([3], [2], 0.95),
        ([-1], [2], 0.95),
        ([0], [0], 0.95),
        ([1], [2], 1.0),
        ([1], [2], 0.0),
        ([1], [2], math.nan),
    ],
)
def test_impossible_counts_are_refused(correct: list[int], total: list[int], level: float) -> None:
    with pytest.raises(ValueError, match=r"."):
        seed_interval(correct, total, level)


def coverage(kind: str, seeds: int, runs: int = 1500, items: int = 1000) -> float:
    """The share of simulated studies whose interval holds the true mean accuracy."""
    generator = np.random.Generator(np.random.Philox(key=20))
    draw = {
        "shared": lambda: np.full(seeds, 0.9),
        "spread": lambda: 0.8 + generator.uniform(-0.1, 0.1, seeds),
        "skewed": lambda: generator.beta(9, 1, seeds),
        "all or nothing": lambda: np.where(generator.random(seeds) < 0.2, 0.0, 0.98),
    }[kind]
    truth = {"shared": 0.9, "spread": 0.8, "skewed": 0.9, "all or nothing": 0.784}[kind]
    hits = 0
    for _ in range(runs):
        correct = generator.binomial(items, draw())
        found = seed_interval(correct.tolist(), [items] * seeds)
        hits += found.low <= truth <= found.high
    return hits / runs


# The last rows hold what the docstring admits: they fail if it should get better or worse unseen.
@pytest.mark.parametrize(
    ("kind", "seeds", "least", "most"),
    [
        ("shared", 1, 0.94, 1.0),
        ("shared", 3, 0.965, 1.0),
        ("shared", 10, 0.955, 0.99),
        ("spread", 3, 0.91, 0.96),
        ("spread", 10, 0.925, 0.965),
        ("skewed", 5, 0.87, 0.93),
        ("all or nothing", 3, 0.45, 0.53),
        ("all or nothing", 10, 0.85, 0.91),
    ],
)
def test_the_interval_covers_as_often_as_its_docstring_says(
    kind: str, seeds: int, least: float, most: float
) -> None:
    assert least <= coverage(kind, seeds) <= most
