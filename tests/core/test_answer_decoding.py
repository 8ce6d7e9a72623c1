"""How the samples of an item become one value: pass@k without bias."""

from itertools import combinations
from math import comb
from statistics import fmean

import numpy as np
import pytest

from adaptlab.plugins.answer_decoding import AnswerDecoding


def rule(samples: int, best_of: int | None) -> AnswerDecoding:
    return AnswerDecoding(temperature=1, samples=samples, kept="best", best_of=best_of)


@pytest.mark.parametrize("best_of", range(1, 8))
def test_it_is_the_mean_of_the_best_over_all_choices(best_of: int) -> None:
    values = sorted((0.1, 0.7, 0.7, 0.2, 0.0, 1.0, 0.4), reverse=True)
    expected = fmean(max(chosen) for chosen in combinations(values, best_of))
    assert np.dot(rule(7, best_of).weights(), values) == pytest.approx(expected)


@pytest.mark.parametrize(("samples", "best_of"), [(20, 5), (20, 10), (64, 63), (64, 1), (5, None)])
def test_of_matches_it_is_the_product_of_chen(samples: int, best_of: int | None) -> None:
    chosen = best_of or samples
    for right in range(samples + 1):
        wrong = samples - right
        product = np.prod([1 - chosen / n for n in range(wrong + 1, samples + 1)])
        expected = 1.0 if wrong < chosen else 1 - product
        values = [1.0] * right + [0.0] * wrong
        found = np.dot(rule(samples, best_of).weights(), values)
        assert found == pytest.approx(expected, abs=1e-12)
        assert found == pytest.approx(1 - comb(wrong, chosen) / comb(samples, chosen), abs=1e-12)


@pytest.mark.parametrize("best_of", [5, 10])
def test_it_has_no_bias_and_the_share_of_right_samples_has(best_of: int) -> None:
    """An expectation over binomial counts, not a simulation."""
    samples, chance = 20, 0.15
    law = [comb(samples, c) * chance**c * (1 - chance) ** (samples - c) for c in range(21)]
    wanted = 1 - (1 - chance) ** best_of
    weights = rule(samples, best_of).weights()
    unbiased = sum(p * sum(weights[:c]) for c, p in enumerate(law))
    plugged = sum(p * (1 - (1 - c / samples) ** best_of) for c, p in enumerate(law))
    assert unbiased == pytest.approx(wanted)
    assert plugged < wanted - 0.01


def test_weights_add_up_to_one() -> None:
    for rules in (AnswerDecoding(samples=4), rule(4, None), rule(64, 30)):
        assert sum(rules.weights()) == pytest.approx(1)
    assert rule(4, None).weights() == (1, 0, 0, 0)
