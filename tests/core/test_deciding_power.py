"""Whether a plan's seeds and test items can order its methods."""

import numpy as np
import pytest

from adaptlab.studies.deciding_power import DISAGREEMENT, decidable, few_items


@pytest.mark.parametrize(("items", "methods"), [(400, 5), (1000, 2), (3000, 12)])
def test_a_decidable_difference_is_decided_four_times_in_five(items: int, methods: int):
    """By a normal test of two methods whose right items are drawn."""
    difference = decidable(items, methods)
    ahead, behind = (DISAGREEMENT + difference) / 2, (DISAGREEMENT - difference) / 2
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(items, [ahead, behind, 1 - DISAGREEMENT], size=20_000)
    lead, differ = drawn[:, 0] - drawn[:, 1], drawn[:, 0] + drawn[:, 1]
    error = 0.05 / (methods - 1)
    threshold = np.quantile(generator.standard_normal(400_000), 1 - error)
    assert 0.78 < float(np.mean(lead / np.sqrt(differ) > threshold)) < 0.86


def test_few_test_items_are_said_with_what_it_takes():
    (warning,) = few_items(111, 5)
    assert "below about 9 points" in warning
    assert "For 5 points it takes about 381" in warning
    assert not few_items(381, 5)
    assert not few_items(111, 1), "one method has no order"
