"""Verdicts of pairs: what is said, on which numbers, and how many seeds would decide."""

import itertools

import numpy as np
import pytest
from tests.core.scoring import drawn, scores

from adaptlab.statistics import PairedDifference, paired_difference
from adaptlab.statistics.ranks import could_be_best, rank_intervals
from adaptlab.verdict import verdicts


def a_pair(
    difference: float, seed_sd: float, item_sd: float, p_value: float | None, seeds: int = 3
) -> PairedDifference:
    """A difference whose single seeds deviate by `seed_sd`."""
    reach = 2 * (seed_sd**2 / seeds + item_sd**2) ** 0.5
    return PairedDifference(
        first="lora",
        second="adapter",
        difference=difference,
        low=difference - reach,
        high=difference + reach,
        level=0.95,
        p_value=p_value,
        sign_flip=None,
        seeds=seeds,
        items=1000,
        seed_part=seed_sd**2 / seeds,
        item_part=item_sd**2,
    )


def test_clear_differences_are_told_in_both_directions():
    good, bad = drawn([0.97, 0.96, 0.97], key=1), drawn([0.02, 0.01, 0.03], method="frozen", key=2)
    for first, second, finding in ((good, bad, "better"), (bad, good, "worse")):
        (found,) = verdicts([paired_difference(first, second)])
        assert found.finding == finding
        assert found.reason == "test"
        assert f"{first.label} is {finding} than {second.label} by 9" in found.text
        assert "3 seeds, 1,000 items" in found.text


def test_the_same_answers_cannot_be_told_apart_within_the_margin():
    same = drawn([0.9, 0.9, 0.9], items=4000)
    (found,) = verdicts([paired_difference(same, same)], margin=0.01)
    assert (found.finding, found.reason) == ("cannot_be_told_apart", "within_margin")
    (found,) = verdicts([paired_difference(same, same)], margin=0.0001)
    assert found.reason == "too_close"


def test_p_values_are_corrected_for_all_pairs_and_only_for_those():
    borderline = [a_pair(0.05, 0.01, 0.01, p) for p in (0.02, 0.04)]
    assert [one.finding for one in verdicts(borderline)] == ["better", "better"]
    assert {one.corrected_p for one in verdicts(borderline)} == {0.04}
    three = verdicts([*borderline, a_pair(0.0, 0.01, 0.01, 0.9)])
    assert [one.corrected_p for one in three] == pytest.approx([0.06, 0.08, 0.9])
    assert all(one.finding != "better" for one in three)


def test_seeds_are_asked_for_as_many_as_give_the_power():
    """With the normal in place of Student's t: n = ((1.96 + 0.84) · sd / difference)²."""
    (found,) = verdicts([a_pair(0.02, 0.03, 1e-6, 0.2)], margin=0.0)
    least = ((1.96 + 0.84) * 0.03 / 0.02) ** 2
    assert found.finding == "needs_more_seeds"
    assert found.more_seeds is not None
    assert least <= found.more_seeds + 3 <= least + 4
    assert f"needs about {found.more_seeds} more seeds" in found.text


def test_seeds_are_not_asked_for_where_only_items_would_help():
    (found,) = verdicts([a_pair(0.004, 0.001, 0.01, 0.6)], margin=0.001)
    assert (found.finding, found.reason) == ("cannot_be_told_apart", "too_close")
    assert found.more_seeds is None


def test_one_seed_is_never_enough():
    ours, theirs = drawn([1.0], key=1), drawn([0.0], method="frozen", key=2)
    (found,) = verdicts([paired_difference(ours, theirs)])
    assert (found.finding, found.reason, found.more_seeds) == ("needs_more_seeds", "one_seed", 2)


def test_three_seeds_of_which_one_fails_are_not_called_worse():
    good = drawn([0.98, 0.98, 0.98], key=1)
    lottery = drawn([0.98, 0.0, 0.98], method="prefix_tuning", key=2)
    (found,) = verdicts([paired_difference(good, lottery)])
    assert found.finding == "needs_more_seeds"


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
