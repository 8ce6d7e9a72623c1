"""Paired differences, against scipy and statsmodels.

They are compared where those offer the same test.
"""

import itertools
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from tests.core.scoring import drawn, scores

from adaptlab.statistics import holm, paired_difference, sign_flip
from adaptlab.statistics.counts import Between, Gap, counts
from adaptlab.statistics.spread import spread


def independent_items(accuracies: list[float], items: int, key: int) -> np.ndarray:
    generator = np.random.Generator(np.random.Philox(key=key))
    return generator.random((len(accuracies), items)) < np.array(accuracies)[:, None]


@pytest.mark.parametrize("key", range(6))
def test_where_seeds_decide_it_is_the_paired_t_test_over_seeds(key: int):
    ours = independent_items([0.9, 0.7, 0.85, 0.8], 5000, key)
    theirs = independent_items([0.7, 0.65, 0.6, 0.5], 5000, 100 + key)
    found = paired_difference(scores(ours, "lora"), scores(theirs, "prefix_tuning"))
    expected = stats.ttest_rel(ours.mean(axis=1), theirs.mean(axis=1))
    assert found.seen_p == pytest.approx(expected.pvalue, rel=0.01)
    low, high = expected.confidence_interval(0.95)
    assert (found.seen_low, found.seen_high) == pytest.approx((low, high), abs=1e-3)


def test_where_all_seeds_agree_it_is_the_test_of_mcnemar_over_items():
    ours = np.array([1] * 800 + [0] * 60 + [1] * 100 + [0] * 40, dtype=bool)
    theirs = np.array([1] * 800 + [1] * 60 + [0] * 100 + [0] * 40, dtype=bool)
    found = paired_difference(
        scores(np.stack([ours] * 3)), scores(np.stack([theirs] * 3), "adapter")
    )
    expected = mcnemar([[800, 100], [60, 40]], exact=False, correction=False)
    # McNemar takes the variance of no difference, 160, where we take that of this one, 158.4.
    p_value = float(expected.pvalue)  # pyright: ignore[reportAttributeAccessIssue]
    z = stats.norm.isf(p_value / 2) * np.sqrt(160 / (160 - 40**2 / 1000) * 999 / 1000)
    assert found.seen_p == pytest.approx(2 * stats.norm.sf(z), rel=1e-6)
    assert found.difference == pytest.approx(0.04)


def test_the_interval_and_the_p_value_agree():
    for key, level in itertools.product(range(5), (0.5, 0.9, 0.99)):
        ours, theirs = drawn([0.9, 0.85, 0.88], key=key), drawn([0.8, 0.79, 0.83], key=50 + key)
        found = paired_difference(ours, theirs, level)
        assert found.p_value is not None
        assert found.seen_p is not None
        assert (found.p_value < 1 - level) == (found.low > 0 or found.high < 0)
        assert (found.seen_p < 1 - level) == (found.seen_low > 0 or found.seen_high < 0)


def test_seeds_are_paired_by_name_and_the_others_left_out():
    table = independent_items([0.9, 0.5, 0.7, 0.6], 400, 2)
    first, second = scores(table[:3]), scores(table[1:], "adapter", first_seed=1)
    found = paired_difference(first, second)
    assert found.seeds == 2
    assert found.difference == 0


def test_what_cannot_be_paired_is_refused():
    with pytest.raises(ValueError, match="scored on 8 items and adapter on 9"):
        paired_difference(scores([[1] * 8]), scores([[1] * 9], "adapter"))
    with pytest.raises(ValueError, match="no seed in common"):
        paired_difference(scores([[1] * 8]), scores([[1] * 8], "adapter", first_seed=4))


def test_one_seed_has_an_interval_over_items_and_no_p_value():
    ours, theirs = independent_items([0.8], 1000, 1), independent_items([0.6], 1000, 2)
    found = paired_difference(scores(ours), scores(theirs, "adapter"))
    assert found.p_value is None
    assert found.sign_flip is None
    gap = ours[0].astype(float) - theirs[0]
    reach = found.seen_high - found.difference
    assert reach == pytest.approx(1.959964 * stats.sem(gap), rel=1e-6)
    assert (found.low, found.high) == pytest.approx((-0.99, 0.99), abs=0.02)


def test_identical_outcomes_are_no_proof_of_sameness():
    same = drawn([0.5, 0.6, 0.7])
    found = paired_difference(same, same)
    assert found.p_value == 1
    assert found.low == -found.high < 0


@pytest.mark.parametrize("gaps", [(0.1, 0.2, 0.3), (0.1, -0.05, 0.3, 0.2, 0.01), (0.0, 0.0, 0.1)])
def test_the_sign_flip_test_is_that_of_scipy(gaps: tuple[float, ...]):
    expected = stats.permutation_test(
        (np.array(gaps),), np.mean, permutation_type="samples", vectorized=False
    )  # exact: it enumerates all 2^n when that is fewer than its 9,999 resamples
    assert sign_flip(gaps) == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("count", [1, 2, 15, 60])
def test_holms_correction_is_that_of_statsmodels(count: int):
    p_values = np.random.Generator(np.random.Philox(key=count)).random(count) ** 4
    p_values[count // 2] = p_values[0]  # a tie
    assert holm(p_values.tolist()) == pytest.approx(multipletests(p_values, method="holm")[1])


@pytest.mark.parametrize(("seeds", "items"), [(1, 100), (2, 37), (5, 300), (8, 64)])
def test_counting_says_the_same_as_the_outcomes_themselves(seeds: int, items: int):
    """The plain analysis is of the differences one by one, by `spread`."""
    ours = independent_items([0.6] * seeds, items, 3)
    theirs = independent_items([0.5] * seeds, items, 4)
    ended = independent_items([0.7] * seeds, items, 5)
    rows = [counts(scores(one), tuple(range(seeds))) for one in (ours, theirs, ended)]
    first, second = Gap(rows[0], rows[1]), Gap(rows[2], rows[1])
    gaps = ours.astype(float) - theirs, ended.astype(float) - theirs
    assert asdict(first.spread()) == pytest.approx(asdict(spread(gaps[0])), rel=1e-9, abs=1e-15)
    for share in (0.0, 0.25, 1.0):
        plain = spread((1 - share) * gaps[0] + share * gaps[1])
        found = Between(first, second).spread(share)
        assert asdict(found) == pytest.approx(asdict(plain), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("key", range(8))
def test_a_p_value_is_the_level_at_which_the_interval_reaches_zero(key: int):
    """The level is found by halving.

    That needs nothing that the p-value is found with.
    """
    ours = scores(independent_items([0.6, 0.7, 0.65, 0.6][: 2 + key % 3], 200, key))
    theirs = scores(independent_items([0.5, 0.55, 0.6, 0.6][: 2 + key % 3], 200, 50 + key), "ia3")
    low, high = 0.0, 1.0
    for _ in range(40):
        level = (low + high) / 2
        found = paired_difference(ours, theirs, level)
        excludes = found.seen_low > 0 or found.seen_high < 0
        low, high = (level, high) if excludes else (low, level)
    assert paired_difference(ours, theirs).seen_p == pytest.approx(1 - low, rel=1e-4)
