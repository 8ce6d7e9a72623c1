"""Rank correlation and its limits, against scipy and published formulas."""

import math
import random

import pytest
from scipy import stats

from adaptlab.statistics.correlation import rho_limits, spearman


def test_rho_is_that_of_scipy_with_and_without_ties():
    draw = random.Random(5)
    for count in (3, 8, 40):
        first = [draw.random() for _ in range(count)]
        second = [draw.randrange(4) for _ in range(count)]
        expected = stats.spearmanr(first, second).statistic
        assert spearman(first, second) == pytest.approx(expected)
        assert spearman(first, [value**3 for value in first]) == pytest.approx(1)
    assert spearman([1, 2, 3], [2, 2, 2]) is None


def test_limits_of_one_replicate_are_over_pairs():
    low, high = rho_limits([0.6], 28)
    reach = stats.norm.ppf(0.975) * math.sqrt((1 + 0.18) / 25)
    assert low == pytest.approx(math.tanh(math.atanh(0.6) - reach))
    assert high == pytest.approx(math.tanh(math.atanh(0.6) + reach))


def test_limits_of_several_are_those_of_students_test_on_the_transform():
    rhos = [0.2, 0.5, 0.6, -0.1, 0.4]
    transformed = [math.atanh(rho) for rho in rhos]
    interval = stats.ttest_1samp(transformed, 0).confidence_interval(0.95)
    low, high = rho_limits(rhos, 28)
    assert (low, high) == (
        pytest.approx(math.tanh(interval.low)),
        pytest.approx(math.tanh(interval.high)),
    )
    # Of ten pairs, the largest rho below 1 is 1 - 12/990; perfect ones count as half way there.
    most = pytest.approx(1 - 6 / 990)
    assert rho_limits([1.0, 1.0], 10) == (most, most)
