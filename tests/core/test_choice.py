"""The score of a method that was chosen for its score.

The score is corrected for the choice.
"""

import numpy as np
import pytest
from tests.core.scoring import drawn, scores

from adaptlab.statistics import chosen_best, mean_interval
from adaptlab.statistics.intervals import Interval


def test_the_score_of_the_best_of_six_alike_is_too_high_and_the_corrected_one_is_not():
    """The best of six methods of 60 % seems better.

    The seeds of each method deviate by 10 points.
    """
    generator = np.random.Generator(np.random.Philox(key=11))
    plain: list[float] = []
    corrected: list[float] = []
    held = held_plain = 0
    for _ in range(300):
        chances = generator.normal(0.6, 0.1, (6, 5)).clip(0, 1)
        rows = [
            scores(generator.random((5, 200)) < chances[row][:, None], f"method {row}")
            for row in range(6)
        ]
        found = chosen_best(rows)
        best = next(row for row in rows if row.label == found.label)
        plain.append(found.score.mean)
        corrected.append(found.corrected)
        held += found.score.low <= 0.6 <= found.score.high
        uncorrected: Interval = mean_interval(best)
        held_plain += uncorrected.low <= 0.6 <= uncorrected.high
    assert np.mean(plain) > 0.64
    assert np.mean(corrected) == pytest.approx(0.6, abs=0.01)
    assert held / 300 >= 0.95
    assert held_plain / 300 < 0.92


def test_a_clear_choice_keeps_its_score_and_widens_its_interval():
    rows = [
        drawn([level] * 5, method=f"at {level}", key=key)
        for key, level in enumerate((0.2, 0.9, 0.5))
    ]
    found = chosen_best(rows)
    alone = mean_interval(rows[1])
    assert (found.label, found.candidates) == ("at 0.9", 3)
    assert found.corrected == pytest.approx(found.score.mean)
    assert found.score.level == pytest.approx(1 - 0.05 / 3)
    assert found.score.low < alone.low < alone.high < found.score.high


def test_seeds_that_a_rival_lacks_are_no_part_of_the_correction():
    levels = [0.60, 0.62, 0.64, *[0.95] * 9]
    best = drawn(levels, method="best", key=5)
    rival = drawn([0.02] * 5, method="rival", key=6)
    found = chosen_best([best, rival])
    assert found.label == "best"
    assert found.corrected == pytest.approx(found.score.mean)


def test_one_candidate_is_no_choice():
    row = drawn([0.5, 0.6, 0.7], key=1)
    found = chosen_best([row])
    assert found.score == mean_interval(row)
    assert found.corrected == found.score.mean


def test_one_seed_is_corrected_by_its_items_alone():
    generator = np.random.Generator(np.random.Philox(key=3))
    found = [
        chosen_best([scores(generator.random((1, 100)) < 0.5, f"{row}") for row in range(8)])
        for _ in range(200)
    ]
    assert np.mean([one.score.mean for one in found]) > 0.56
    assert np.mean([one.corrected for one in found]) == pytest.approx(0.5, abs=0.01)


def test_rows_without_common_items_are_refused():
    with pytest.raises(ValueError, match=r"not on \[8, 9\]"):
        chosen_best([scores([[1] * 8]), scores([[1] * 9], "adapter")])
    with pytest.raises(ValueError, match=r"not on \[\]"):
        chosen_best([])
