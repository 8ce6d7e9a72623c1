"""Means over all seeds, and what n seeds may have missed.

The references are closed forms and exact tests.
"""

import itertools

import numpy as np
import pytest
from scipy import optimize, stats
from tests.core.scoring import drawn, scores

from adaptlab.statistics import failing_seeds, mean_interval, paired_difference
from adaptlab.statistics.failing import exact_p_value, failing_below, successful
from adaptlab.statistics.unseen import (
    difference_limits,
    evidence,
    evidence_of_order,
    least_p_value,
    p_equal_means,
)


@pytest.mark.parametrize("seeds", [3, 5, 10, 64])
@pytest.mark.parametrize(("high", "low"), [(1.0, 0.0), (0.99, 0.6), (0.4, 0.02), (1.0, 0.8)])
def test_seeds_that_agree_have_the_chance_that_neither_showed_its_exceptions(
    seeds: int, high: float, low: float
):
    """The chance is 2 sup [μ (1 - μ) / (a (1 - b))]ⁿ over μ from b to a.

    μ (1 - μ) is largest at 1/2.
    """
    mean = min(max(0.5, low), high)
    expected = min(1.0, 2 * (mean * (1 - mean) / (high * (1 - low))) ** seeds)
    first, second = evidence(np.full(seeds, high)), evidence(np.full(seeds, low))
    assert p_equal_means(evidence_of_order(first, second)) == pytest.approx(expected, rel=2e-3)
    assert p_equal_means(evidence_of_order(second, first)) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(("first", "second"), [((1, 1, 1, 1, 0), (0, 0, 0)), ((0.9,) * 4, (0.2,))])
def test_it_is_the_likelihood_ratio_of_distributions_on_the_whole_scale(
    first: tuple[float, ...], second: tuple[float, ...]
):
    """The reference is found by optimising weights, without a multiplier.

    The weights are those of the scores seen and of both ends.
    """

    def log_ratio(scores: tuple[float, ...], mean: float) -> float:
        points = np.unique([*scores, 0.0, 1.0])
        counts = np.array([scores.count(point) for point in points])
        seen = counts[counts > 0]
        best = float(np.sum(seen * np.log(seen / len(scores))))
        given = np.stack([np.ones(len(points)), points])
        found = optimize.minimize(
            lambda weights: -float(np.sum(seen * np.log(weights[counts > 0]))),
            np.full(len(points), 1 / len(points)),
            method="SLSQP",
            bounds=optimize.Bounds(1e-12, 1),
            constraints=optimize.LinearConstraint(given, [1, mean], [1, mean]),
        )
        return best + float(found.fun)

    inside = np.linspace(np.mean(second) + 1e-6, np.mean(first) - 1e-6, 60)
    least = min(log_ratio(first, mean) + log_ratio(second, mean) for mean in inside)
    found = evidence_of_order(evidence(np.array(first, float)), evidence(np.array(second, float)))
    assert found == pytest.approx(least, rel=5e-3)


@pytest.mark.parametrize("seeds", [1, 3, 5, 10])
def test_limits_of_successes_alone_are_those_of_clopper_and_pearson(seeds: int):
    assert evidence(np.ones(seeds)).limits(0.95) == pytest.approx(
        (0.025 ** (1 / seeds), 1.0), abs=1e-4
    )
    assert evidence(np.zeros(seeds)).limits(0.95) == pytest.approx(
        (0.0, 1 - 0.025 ** (1 / seeds)), abs=1e-4
    )


def test_the_limits_of_a_difference_are_where_the_p_value_of_equal_means_crosses():
    """The limit is the least μ₁ - μ₂ at which μ₁ⁿ (1 - μ₂)ⁿ = 2.5 %.

    The scores are 1.0 against 0.0 in n seeds.
    """
    first, second = evidence(np.ones(6)), evidence(np.zeros(6))
    least = 2 * 0.025 ** (1 / 12) - 1
    assert difference_limits(first, second, 0.95) == pytest.approx((least, 1.0), abs=1e-3)
    assert difference_limits(second, first, 0.95) == pytest.approx((-1.0, -least), abs=1e-3)


@pytest.mark.parametrize("seeds", [2, 3, 5, 8])
def test_no_p_value_is_below_what_an_exact_test_on_seeds_allows(seeds: int):
    groups = np.ones(seeds), np.zeros(seeds)
    exact = stats.permutation_test(groups, lambda x, y: x.mean() - y.mean(), n_resamples=99999)
    assert least_p_value(seeds) == pytest.approx(exact.pvalue)
    found = paired_difference(drawn([1.0] * seeds), drawn([0.0] * seeds, method="frozen"))
    assert found.p_value is not None
    assert found.p_value >= exact.pvalue


@pytest.mark.parametrize(("seeds", "alpha"), [(4, 0.05), (5, 0.05), (5, 0.05 / 15), (8, 0.05 / 15)])
def test_lotteries_with_equal_means_are_seldom_told_apart(seeds: int, alpha: float):
    """Every pair of lotteries [0, x] and [y, 1] with equal means.

    The pairs are enumerated exactly.
    """
    tables = list(itertools.product(range(seeds + 1), repeat=2))
    for x, y, mean in itertools.product((0.6, 0.9, 1.0), (0.0, 0.1, 0.4), (0.41, 0.5, 0.59)):
        wins, wins_y = mean / x, (mean - y) / (1 - y)
        first = [evidence(np.array([x] * k + [0.0] * (seeds - k))) for k in range(seeds + 1)]
        second = [evidence(np.array([1.0] * k + [y] * (seeds - k))) for k in range(seeds + 1)]
        size = 0.0
        for ours, theirs in tables:
            if p_equal_means(evidence_of_order(first[ours], second[theirs])) <= alpha:
                size += float(
                    stats.binom.pmf(ours, seeds, wins) * stats.binom.pmf(theirs, seeds, wins_y)
                )
        assert size <= alpha, (x, y, mean)


def test_a_difference_ends_where_the_scores_end():
    """99, 80 and 60 % against 99.9 %: Student's upper limit is +28 points."""
    best = drawn([0.999] * 3, method="full_finetuning", key=1)
    found = paired_difference(drawn([0.99, 0.8, 0.6], key=2), best)
    lora = mean_interval(drawn([0.99, 0.8, 0.6], key=2), 0.975)
    reference = mean_interval(best, 0.975)
    assert found.seen_high == pytest.approx(lora.high - reference.low)
    assert found.seen_low >= lora.low - reference.high
    assert found.high <= 1 - (reference.all_seeds_low or 0)


def test_an_interval_names_what_it_covers():
    same = scores([[1] * 60 + [0] * 40] * 5)
    unlike = drawn([0.5, 0.6, 0.7], 100)
    assert mean_interval(same).over_items_only
    assert not mean_interval(unlike).over_items_only
    found = mean_interval(scores([[1] * 100] * 5))
    assert found.all_seeds_low == pytest.approx(0.025 ** (1 / 5), abs=1e-4)
    assert found.low == pytest.approx(0.025 ** (1 / 100), abs=1e-9)


def test_one_rule_of_failing_holds_for_a_whole_table():
    best = drawn([0.95, 0.0, 0.97, 0.96, 0.94], method="lora", key=1)
    half = drawn([0.6, 0.5, 0.45, 0.6, 0.6], method="adapter", key=2)
    none = drawn([0.01] * 5, method="prefix_tuning", key=3)
    below = failing_below([none, half, best])
    assert below == pytest.approx(0.475, abs=0.02)
    assert successful(best, below) == (0, 2, 3, 4)
    assert 2 not in successful(half, below)
    assert successful(none, below) == ()
    assert successful(none, failing_below([none], chance=0.05)) == ()


def test_shares_of_failing_seeds_are_those_of_scipy():
    for failing, seeds in ((1, 5), (3, 10), (9, 10)):
        limits = stats.binomtest(failing, seeds).proportion_ci(0.95, method="exact")
        found = failing_seeds(failing, seeds)
        assert (found.low, found.high) == pytest.approx((limits.low, limits.high))
    assert failing_seeds(0, 5).high == pytest.approx(1 - 0.05 ** (1 / 5))
    assert failing_seeds(5, 5).low == pytest.approx(0.05 ** (1 / 5))
    for here, there in itertools.product(range(6), range(8)):
        table = np.array([[here, 5 - here], [there, 7 - there]])
        expected = stats.fisher_exact(table).pvalue
        found = exact_p_value(failing_seeds(here, 5), failing_seeds(there, 7))
        assert found == pytest.approx(expected)
