"""Intervals for means, against scipy and statsmodels.

Their coverage is in test_coverage.py.
"""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from tests.core.scoring import drawn, scores

from adaptlab.runs.events import Evaluation
from adaptlab.statistics import (
    Interval,
    Scores,
    mean_interval,
    scores_of,
    seed_interval,
    unseen_failure_rate,
)
from adaptlab.statistics.spread import spread


def clopper_pearson(right: int, items: int, level: float = 0.95) -> tuple[float, float]:
    found = stats.binomtest(right, items).proportion_ci(level, method="exact")
    return found.low, found.high


def an_evaluation(seed: int, right: list[bool]) -> Evaluation:
    return Evaluation(
        replicate=seed,
        seed=seed,
        task={"name": "sort_descending"},
        split="test",
        correct=sum(right),
        total=len(right),
        outcomes=np.packbits(right).tobytes().hex(),
    )


def test_outcomes_come_back_as_they_were_packed():
    rows = np.random.Generator(np.random.Philox(key=3)).random((4, 13)) < 0.5
    found = scores_of("lora", [an_evaluation(seed, rows[seed].tolist()) for seed in (2, 0, 3, 1)])
    assert found.seeds == (0, 1, 2, 3)
    assert found.matrix().tolist() == rows.astype(float).tolist()
    assert found.matrix([3, 1]).tolist() == rows[[3, 1]].astype(float).tolist()


def test_scores_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match=r"\[8, 16\] items"):
        scores_of("lora", [an_evaluation(0, [True] * 8), an_evaluation(1, [True] * 16)])
    for seeds, items, rows, said in (
        ((0, 0), 8, ("ff", "ff"), "has a seed twice"),
        ((0, 1), 8, ("ff",), "2 seeds and 1 rows"),
        ((0,), 9, ("ff",), "9 items take 4"),
    ):
        with pytest.raises(ValidationError, match=said):
            Scores(method="lora", seeds=seeds, items=items, outcomes=rows)


def test_the_parts_of_the_variance_are_the_mean_squares_of_a_two_way_table():
    generator = np.random.Generator(np.random.Philox(key=5))
    hard = generator.random((1, 12))
    right = (generator.random((4, 12)) < hard).astype(float)
    seed, item = np.repeat(np.arange(4), 12), np.tile(np.arange(12), 4)
    table = pd.DataFrame({"right": right.ravel(), "seed": seed, "item": item})
    squares = anova_lm(ols("right ~ C(seed) + C(item)", data=table).fit())["mean_sq"] / 48
    found = spread(right)
    assert found.seed_part == pytest.approx(squares["C(seed)"])
    assert found.rest == pytest.approx(squares["Residual"])
    assert found.item_part == pytest.approx(squares["C(item)"] - squares["Residual"])


@pytest.mark.parametrize("right", [0, 1, 37, 99, 100])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_one_seed_has_the_exact_binomial_interval(right: int, level: float):
    one = scores([[1] * right + [0] * (100 - right)])
    for found in (mean_interval(one, level), seed_interval([right], [100], level)):
        expected = clopper_pearson(right, 100, level)
        assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)
        assert found.over_items_only
        assert found.seeds == 1


@pytest.mark.parametrize("share", [0, 1])
def test_seeds_all_wrong_or_all_right_have_the_exact_interval_of_the_items(share: int):
    right = share * 1000
    expected = clopper_pearson(right, 1000)
    for found in (
        mean_interval(scores([[share] * 1000] * 3)),
        seed_interval([right] * 3, [1000] * 3),
    ):
        assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)
        assert found.mean == share


def log_odds(share: float) -> float:
    return math.log(share / (1 - share))


@pytest.mark.parametrize("accuracies", [(0.45, 0.5, 0.55), (0.86, 0.9, 0.88, 0.91, 0.87)])
def test_seeds_that_differ_reach_as_far_as_student_on_the_log_odds(accuracies: tuple[float, ...]):
    """Items matter little here.

    There are many, and none is harder for all seeds than another.
    """
    found = mean_interval(drawn(accuracies, 4000, key=1))
    observed = drawn(accuracies, 4000, key=1).matrix().mean(axis=1)
    step = stats.t.ppf(0.975, len(accuracies) - 1) * stats.sem(observed)
    step /= found.mean * (1 - found.mean)
    # The limit that is farther of two; this one is at most as far, and the other nearly as near.
    assert log_odds(found.mean) - log_odds(found.low) == pytest.approx(step, rel=0.3)
    assert log_odds(found.high) - log_odds(found.mean) == pytest.approx(step, rel=0.3)
    assert log_odds(found.mean) - log_odds(found.low) >= 0.97 * step


def test_seeds_that_agree_on_every_item_say_no_more_than_one_of_them():
    row = (np.arange(1000) < 700).astype(int).tolist()
    three, one = mean_interval(scores([row] * 3)), mean_interval(scores([row]))
    assert (three.low, three.high) == pytest.approx((one.low, one.high), abs=2e-3)


def test_seeds_that_agree_on_the_mean_by_chance_still_have_a_width():
    rows = [np.roll([1] * 900 + [0] * 100, 100 * turn).tolist() for turn in range(3)]
    found = mean_interval(scores(rows))
    items_only = math.sqrt(0.9 * 0.1 / 3000) * 1.96
    assert 0.5 * items_only < found.mean - found.low < 0.7 * items_only


def test_counts_alone_are_never_narrower_than_the_items_of_one_seed():
    found = seed_interval([900, 900, 900], [1000, 1000, 1000])
    assert (found.low, found.high) == pytest.approx(clopper_pearson(900, 1000), abs=2e-3)


def test_the_mean_is_over_seeds_and_inside():
    found = seed_interval([1, 5000], [10, 5000])
    assert found.mean == pytest.approx(0.55)
    assert found.low <= found.mean <= found.high


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=9), min_size=1, max_size=6),
    st.floats(0.01, 0.999),
)
def test_an_interval_is_a_part_of_zero_to_one_around_the_mean(rows: list[list[int]], level: float):
    items = min(len(row) for row in rows)
    table = [row[:items] for row in rows]
    counts = [sum(row) for row in table]
    for found in (
        mean_interval(scores(table), level),
        seed_interval(counts, [items] * len(rows), level),
    ):
        assert 0 <= found.low <= found.mean <= found.high <= 1
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
def test_impossible_counts_are_refused(correct: list[int], total: list[int], level: float):
    with pytest.raises(ValueError, match=r"."):
        seed_interval(correct, total, level)


def test_what_a_few_successes_leave_possible():
    # Where a share f of seeds fails, n in a row succeed with probability (1 - f)ⁿ = 5 %.
    for seeds in (1, 3, 10):
        assert (1 - unseen_failure_rate(seeds)) ** seeds == pytest.approx(0.05)
