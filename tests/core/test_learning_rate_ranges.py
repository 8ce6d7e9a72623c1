"""The methods' own ranges of learning rates leave room on both sides of what was measured."""

import re
from pathlib import Path
from statistics import geometric_mean

import pytest

from adaptlab.methods.combine import Combine
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.plugins.method import METHODS

RESULTS = Path(__file__).parents[2] / "docs" / "results"
STUDIES = ("new-task-study", "new-task-longer-study", "mixture-study")
SWEEP = re.compile(r"^\| (\w+)[^|]*((?:\| [\d.e-]+: [\d.]+ %[^|]*){3,})\|$", re.MULTILINE)
RATE = re.compile(r"([\d.e-]+): ([\d.]+) %")
LEARNS, DONE = 1.0, 99.0
"""Per cent of validation items: below nothing is learned, above nothing is left to gain."""


def best_rates(study: str) -> list[tuple[str, float]]:
    """The methods of a study's page with the rate that was best, where rates matter."""
    found: list[tuple[str, float]] = []
    for method, rates in SWEEP.findall((RESULTS / f"{study}.md").read_text()):
        right = {float(rate): float(score) for rate, score in RATE.findall(rates)}
        best = max(right, key=lambda rate: right[rate])
        if LEARNS <= right[best] < DONE:
            found.append((method, best))
    return found


@pytest.mark.parametrize("study", STUDIES)
def test_the_best_rate_of_every_study_is_inside_its_methods_range(study: str) -> None:
    best = best_rates(study)
    assert len(best) >= 2, "the page has sweeps"
    for method, rate in best:
        low, high = METHODS.get(method).learning_rate_range
        assert low < rate < high, (method, rate)


def test_a_combination_has_the_range_of_its_default_parts_together() -> None:
    ranges = zip(PrefixTuning.learning_rate_range, Lora.learning_rate_range, strict=True)
    together = tuple(geometric_mean(ends) for ends in ranges)
    assert Combine.learning_rate_range == pytest.approx(together, rel=0.02)
