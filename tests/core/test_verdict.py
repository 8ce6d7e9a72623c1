"""Verdicts of pairs: their words, numbers and seeds.

Tests cover what is said, on which numbers, and how many seeds would decide.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from tests.core.scoring import drawn, scores

from adaptlab.comparisons.row_names import method_in_sentence
from adaptlab.comparisons.verdict import SeedOutcomes, Verdict, verdicts
from adaptlab.statistics import PairedDifference, Scores, failing_seeds, paired_difference
from adaptlab.statistics.failing import failing_below, successful
from adaptlab.statistics.ranks import could_be_best, rank_intervals


def a_pair(
    difference: float,
    seed_sd: float,
    item_sd: float,
    p_value: float | None,
    seeds: int = 10,
    unseen_evidence: float = 1000.0,
) -> PairedDifference:
    """Return a difference whose single seeds deviate by `seed_sd`.

    `p_value` is of seeds like those.
    """
    reach = 2 * (seed_sd**2 / seeds + item_sd**2) ** 0.5
    return PairedDifference(
        first="lora",
        second="adapter",
        difference=difference,
        low=difference - reach,
        high=difference + reach,
        level=0.95,
        p_value=p_value,
        seen_low=difference - reach,
        seen_high=difference + reach,
        seen_p=p_value,
        unseen_evidence=unseen_evidence,
        undone_by=0.1,
        sign_flip=None,
        seeds=seeds,
        items=1000,
        seed_part=seed_sd**2 / seeds,
        item_part=item_sd**2,
    )


def outcomes(*rows: Scores) -> list[SeedOutcomes]:
    below = failing_below(rows)
    found: list[SeedOutcomes] = []
    for first, second in itertools.combinations(rows, 2):
        good = [successful(one, below) for one in (first, second)]
        both = tuple(seed for seed in good[0] if seed in good[1])
        here, there = (
            failing_seeds(len(one.seeds) - len(ours), len(one.seeds))
            for one, ours in zip((first, second), good, strict=True)
        )
        pair = paired_difference(first, second, seeds=both) if both else None
        found.append(SeedOutcomes(here, there, pair))
    return found


def test_clear_differences_are_told_in_both_directions():
    good = drawn([0.97, 0.96, 0.97, 0.98, 0.97], key=1)
    bad = drawn([0.02, 0.01, 0.03, 0.02, 0.02], method="frozen", key=2)
    for first, second, finding in ((good, bad, "better"), (bad, good, "worse")):
        (found,) = verdicts([paired_difference(first, second)])
        assert found.finding == finding
        assert found.reason == "test"
        names = [method_in_sentence(row.label) for row in (first, second)]
        text = f"Over all seeds, {names[0]} is {finding} than {names[1]} by 9"
        assert found.text.startswith(text)
        assert "5 seeds, 1,000 items" in found.text


def test_three_seeds_never_show_an_order_over_all_seeds():
    """An exact test on 3 of 3 against 0 of 3 gives 0.1."""
    good, bad = drawn([1.0] * 3, key=1), drawn([0.0] * 3, method="frozen", key=2)
    (found,) = verdicts([paired_difference(good, bad)])
    assert found.corrected_p == pytest.approx(0.1)
    assert (found.finding, found.more_seeds) == ("not_known", 1)


def test_a_score_that_unseen_failures_would_undo_is_not_called_better():
    """One failing seed in five makes the two methods equal.

    They have five seeds at 1.0 against 0.8 in every seed.
    """
    high, low = drawn([1.0] * 5, key=1), drawn([0.8] * 5, method="adapter", key=2)
    pair = paired_difference(high, low)
    assert pair.seen_p is not None
    assert pair.seen_p < 1e-5
    (found,) = verdicts([pair], outcomes=outcomes(high, low))
    assert (found.finding, found.reason) == ("not_known", "projection")
    assert found.undone_by == pytest.approx(0.2, abs=0.02)
    assert found.unseen_failure_rate == pytest.approx(1 - 0.05**0.2)
    assert found.successful is not None
    assert found.successful.finding == "better"
    assert "Among seeds that do not fail, LoRA is better than bottleneck adapter" in found.text


@pytest.fixture(scope="module")
def verdicts_with_failing_seeds() -> tuple[Verdict, ...]:
    """Return the verdicts of three methods with failing seeds.

    They are of all against a lottery, of all against none, and of the lottery against none.
    """
    steady = drawn([0.8] * 10, key=1)
    lottery = drawn([1.0] * 8 + [0.0] * 2, method="prefix_tuning", key=2)
    never = drawn([0.0] * 10, method="ia3", key=3)
    rows = [steady, lottery, never]
    pairs = [paired_difference(a, b) for a, b in itertools.combinations(rows, 2)]
    return verdicts(pairs, outcomes=outcomes(*rows))


def test_failing_seeds_are_compared_apart_from_the_score_of_the_others(
    verdicts_with_failing_seeds: tuple[Verdict, ...],
):
    first, _, _ = verdicts_with_failing_seeds
    assert first.finding == "not_known"
    assert first.successful is not None
    assert first.successful.finding == "worse"
    assert first.successful.second_failing.failing == 2
    assert first.successful.failing_p == pytest.approx(0.4737, abs=1e-4)  # scipy's fisher_exact
    assert first.successful.pair is not None
    assert first.successful.pair.seeds == 8


def test_where_every_seed_fails_there_is_no_score_of_successful_ones(
    verdicts_with_failing_seeds: tuple[Verdict, ...],
):
    for one in verdicts_with_failing_seeds[1:]:
        assert one.finding == "better"
        assert one.successful is not None
        assert one.successful.pair is None
        assert one.successful.finding is None


def test_methods_that_no_seed_told_apart_may_differ_in_other_seeds():
    """0 % in five seeds each, where one of them may succeed in 30 % of seeds."""
    never, seldom = drawn([0.0] * 5, key=1), drawn([0.0] * 5, method="adapter", key=2)
    (found,) = verdicts([paired_difference(never, seldom)])
    assert (found.finding, found.reason) == ("cannot_be_told_apart", "alike_on_seeds_run")
    assert "On seeds like the 5 run" in found.text
    assert "Up to 45 % of other seeds may behave differently" in found.text
    assert found.pair.high > 0.3


def test_p_values_are_corrected_for_all_pairs_and_only_for_those():
    borderline = [a_pair(0.05, 0.01, 0.01, p) for p in (0.02, 0.04)]
    assert [one.finding for one in verdicts(borderline)] == ["better", "better"]
    assert {one.corrected_p for one in verdicts(borderline)} == {0.04}
    three = verdicts([*borderline, a_pair(0.0, 0.01, 0.01, 0.9)])
    assert [one.corrected_p for one in three] == pytest.approx([0.06, 0.08, 0.9])
    assert all(one.finding != "better" for one in three)


def test_seeds_are_asked_for_as_many_as_give_the_power():
    """With normal quantiles, n = ((1.96 + 0.84) · sd / δ)².

    Here δ² is d² less its own variance. The lower end takes d itself and the variance over its
    upper chi-square quantile.
    """
    deviation, difference, seeds = 0.03, 0.02, 10
    (found,) = verdicts([a_pair(difference, deviation, 1e-6, 0.2)], margin=0.0)
    shrunk = difference**2 - deviation**2 / seeds
    least = (1.96 + 0.84) ** 2 * deviation**2 / shrunk
    assert found.finding == "not_known"
    assert found.more_seeds is not None
    assert least <= found.more_seeds + seeds <= least + 4
    low = (2.8 * deviation / difference) ** 2 * (seeds - 1) / stats.chi2.ppf(0.9, seeds - 1)
    high = least * (seeds - 1) / stats.chi2.ppf(0.1, seeds - 1)
    assert found.more_seeds_low is not None
    assert found.more_seeds_high is not None
    assert low <= found.more_seeds_low + seeds <= low + 4
    assert high <= found.more_seeds_high + seeds <= high + 5
    said = f"{found.more_seeds_low} to {found.more_seeds_high} more seeds"
    assert f"{said} (about {found.more_seeds})" in found.text


def test_no_seeds_are_asked_for_where_the_difference_is_no_larger_than_chance():
    (found,) = verdicts([a_pair(0.01, 0.08, 1e-6, 0.7)], margin=0.0)
    assert (found.finding, found.reason, found.more_seeds) == ("not_known", "too_close", None)
    assert "64 are not expected to settle it" in found.text


def test_seeds_are_asked_for_until_unseen_failures_cannot_explain_the_difference():
    """The p-value 2 rⁿ falls to 5 % at n = ln 40 / ln (1 / r) seeds."""
    evidence = [5 * math.log(1 / ratio) for ratio in (0.6, 0.97)]
    (found,) = verdicts([a_pair(0.4, 0.01, 1e-6, 1e-9, seeds=5, unseen_evidence=evidence[0])])
    assert found.more_seeds == math.ceil(math.log(40) / math.log(1 / 0.6)) - 5
    (found,) = verdicts([a_pair(0.4, 0.01, 1e-6, 1e-9, seeds=5, unseen_evidence=evidence[1])])
    assert (found.reason, found.more_seeds) == ("too_close", None)


def test_seeds_are_not_asked_for_where_only_items_would_help():
    (found,) = verdicts([a_pair(0.004, 0.001, 0.01, 0.6)], margin=0.001)
    assert (found.finding, found.reason) == ("not_known", "too_close")
    assert found.more_seeds is None


def test_one_seed_is_never_enough():
    ours, theirs = drawn([1.0], key=1), drawn([0.0], method="frozen", key=2)
    (found,) = verdicts([paired_difference(ours, theirs)])
    assert (found.finding, found.reason, found.more_seeds) == ("not_known", "one_seed", 2)


def test_three_seeds_of_which_one_fails_are_not_called_worse():
    good = drawn([0.98, 0.98, 0.98], key=1)
    lottery = drawn([0.98, 0.0, 0.98], method="prefix_tuning", key=2)
    (found,) = verdicts([paired_difference(good, lottery)])
    assert found.finding == "not_known"


def test_ranks_follow_from_what_was_told_apart():
    ranks = rank_intervals(["a", "b", "c", "d"], [("a", "c"), ("a", "d"), ("b", "d")])
    assert {name: (rank.low, rank.high) for name, rank in ranks.items()} == {
        "a": (1, 2),
        "b": (1, 3),
        "c": (2, 4),
        "d": (3, 4),
    }
    assert could_be_best(ranks) == ("a", "b")


def test_ranks_hold_the_true_ranks_and_a_best_one():
    accuracies = {"a": 0.9, "b": 0.85, "c": 0.6, "d": 0.1}
    generator = np.random.Generator(np.random.Philox(key=9))
    for _ in range(20):
        rows = [
            scores(generator.random((4, 800)) < accuracy, name)
            for name, accuracy in accuracies.items()
        ]
        found = verdicts([paired_difference(*two) for two in itertools.combinations(rows, 2)])
        told = [(one.pair.first, one.pair.second) for one in found if one.finding == "better"]
        ranks = rank_intervals(list(accuracies), told)
        assert "a" in could_be_best(ranks)
        assert all(
            ranks[name].low <= place <= ranks[name].high for place, name in enumerate("abcd", 1)
        )
