"""Differences of two methods, against scipy and statsmodels."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from tests.core.scoring import drawn, scores

from adaptlab.statistics import holm, paired_difference
from adaptlab.statistics.counts import Between, Gap, counts
from adaptlab.statistics.spread import spread


def independent_items(accuracies: list[float], items: int, key: int) -> np.ndarray:
    generator = np.random.Generator(np.random.Philox(key=key))
    return generator.random((len(accuracies), items)) < np.array(accuracies)[:, None]


@pytest.mark.parametrize("key", range(4))
def test_where_seeds_decide_limits_hold_the_paired_t_interval_and_the_seeds(key: int) -> None:
    ours = independent_items([0.9, 0.7, 0.85, 0.8, 0.86], 5000, key)
    theirs = independent_items([0.7, 0.65, 0.6, 0.5, 0.55], 5000, 100 + key)
    found = paired_difference(scores(ours, "lora"), scores(theirs, "prefix_tuning"))
    gaps = ours.mean(axis=1) - theirs.mean(axis=1)
    low, high = stats.ttest_rel(ours.mean(axis=1), theirs.mean(axis=1)).confidence_interval(0.95)
    wide = min(low, gaps.min()), max(high, gaps.max())
    assert (found.low, found.high) == pytest.approx(wide, abs=2e-3)
    welch = stats.ttest_ind(ours.mean(axis=1), theirs.mean(axis=1), equal_var=False)
    assert found.p_value == pytest.approx(welch.pvalue, rel=0.1)


def test_where_all_seeds_agree_it_is_a_test_over_items() -> None:
    ours = np.array([1] * 800 + [0] * 60 + [1] * 100 + [0] * 40, dtype=bool)
    theirs = np.array([1] * 800 + [1] * 60 + [0] * 100 + [0] * 40, dtype=bool)
    found = paired_difference(
        scores(np.stack([ours] * 5)), scores(np.stack([theirs] * 5), "adapter")
    )
    gap = ours.astype(float) - theirs
    error = np.sqrt(gap.var(ddof=1) / 1000 + (1.5 / 1000) ** 2)  # with items not seen to differ
    assert found.p_value == pytest.approx(2 * stats.norm.sf(gap.mean() / error), rel=1e-6)
    reach = found.high - found.difference
    assert reach == pytest.approx(stats.norm.isf(0.025) * error, rel=1e-6)


def test_items_in_clusters_count_by_cluster() -> None:
    """Twenty questions on one text say little more than one."""
    clusters = tuple(np.repeat(np.arange(20), 20).tolist())
    ours, theirs = (
        np.repeat(independent_items([share] * 5, 20, key), 20, axis=1)
        for share, key in ((0.9, 1), (0.6, 2))
    )
    apart = paired_difference(scores(ours), scores(theirs, "adapter"))
    grouped = paired_difference(
        scores(ours).model_copy(update={"clusters": clusters}),
        scores(theirs, "adapter").model_copy(update={"clusters": clusters}),
    )
    assert grouped.item_part > 15 * (apart.item_part - (1.5 / 400) ** 2)


def test_seeds_are_paired_by_name_and_the_others_left_out() -> None:
    table = independent_items([0.9, 0.5, 0.7, 0.6], 400, 2)
    first, second = scores(table[:3]), scores(table[1:], "adapter", first_seed=1)
    found = paired_difference(first, second)
    assert (found.seeds, found.difference) == (2, 0)


def test_a_seed_without_a_score_gets_nothing_right() -> None:
    lost = scores([[1] * 50] * 3).model_copy(update={"unscored": (3, 4)})
    found = paired_difference(lost, scores([[1] * 50] * 5, "adapter"))
    assert (found.seeds, found.difference) == (5, pytest.approx(-0.4))
    assert found.low <= -1


def test_methods_without_common_seeds_are_compared_and_other_items_refused() -> None:
    first, second = drawn([0.9] * 5, key=1), drawn([0.5] * 5, method="adapter", key=2, first_seed=9)
    found = paired_difference(first, second)
    assert found.seeds == 0
    assert found.low > 0.3
    with pytest.raises(ValueError, match="scored on 8 items and adapter on 9"):
        paired_difference(scores([[1] * 8]), scores([[1] * 9], "adapter"))


def test_one_seed_has_an_interval_over_items_and_no_p_value() -> None:
    ours, theirs = independent_items([0.8], 1000, 1), independent_items([0.6], 1000, 2)
    found = paired_difference(scores(ours), scores(theirs, "adapter"))
    assert found.p_value is None
    assert found.high - found.difference == pytest.approx(0.039, abs=0.003)


def test_identical_outcomes_are_no_proof_of_sameness() -> None:
    same = drawn([0.5, 0.6, 0.7])
    found = paired_difference(same, same)
    assert found.p_value == 1
    assert found.low == -found.high < 0


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("count", [1, 2, 15, 60])
def test_holms_correction_is_that_of_statsmodels(count: int) -> None:
    p_values = np.random.Generator(np.random.Philox(key=count)).random(count) ** 4
    p_values[count // 2] = p_values[0]  # a tie
    assert holm(p_values.tolist()) == pytest.approx(multipletests(p_values, method="holm")[1])


@pytest.mark.parametrize(("seeds", "items"), [(1, 100), (2, 37), (5, 300), (8, 64)])
def test_counting_says_the_same_as_the_outcomes_themselves(seeds: int, items: int) -> None:
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
