"""The methods' own ranges of learning rates.

They leave room on both sides of what was measured.
"""

import re
from pathlib import Path
from statistics import geometric_mean

import pytest

from adaptlab.families.gpt2 import GPT2
from adaptlab.families.minigpt import MiniGPT
from adaptlab.methods.combine import Combine
from adaptlab.methods.full_finetuning import FullFinetuning
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.plugins.family import Family
from adaptlab.plugins.method import LARGE_BASE, METHODS, Method
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec

MEASURED = Path(__file__).parent / "measured_learning_rates.txt"
STUDIES = ("new-task", "new-task-longer", "mixture")
SWEEP = re.compile(r"^\| (\w+)[^|]*((?:\| [\d.e-]+: [\d.]+ %[^|]*){3,})\|$", re.MULTILINE)
RATE = re.compile(r"([\d.e-]+): ([\d.]+) %")
SMALL, LARGE = (
    GPT2(layers=layers, heads=6, width=384).resolved(vocabulary=100, context=64)
    for layers in (1, 6)
)
SIZES: dict[type[Method], dict[str, object]] = {
    Lora: {"rank": 1},
    PrefixTuning: {"length": 1},
    FullFinetuning: {},
}
LEARNS, DONE = 1.0, 99.0
"""Per cent of validation items: below nothing is learned, above nothing is left to gain."""


def best_rates(study: str) -> list[tuple[str, float]]:
    """Return the methods of a study with the rate that was best.

    Only methods for which rates matter are included.
    """
    found: list[tuple[str, float]] = []
    (table,) = (
        part.partition("\n")[2]
        for part in MEASURED.read_text().split("\n\n")
        if part.partition("\n")[0] == study
    )
    for method, rates in SWEEP.findall(table):
        right = {float(rate): float(score) for rate, score in RATE.findall(rates)}
        best = max(right, key=lambda rate: right[rate])
        if LEARNS <= right[best] < DONE:
            found.append((method, best))
    return found


@pytest.mark.parametrize("study", STUDIES)
def test_the_best_rate_of_every_study_is_inside_its_methods_range(study: str) -> None:
    best = best_rates(study)
    assert len(best) >= 2, "the file has sweeps"
    for method, rate in best:
        low, high = METHODS.get(method).learning_rate_range
        assert low < rate < high, (method, rate)


def test_a_combination_has_the_range_of_its_default_parts_together() -> None:
    ranges = zip(PrefixTuning.learning_rate_range, Lora.learning_rate_range, strict=True)
    together = tuple(geometric_mean(ends) for ends in ranges)
    assert Combine.learning_rate_range == pytest.approx(together, rel=0.02)


def rates_of(method: dict[str, object], trials: int, base: Family) -> tuple[float, ...]:
    """The learning rates of a job that leaves them open."""
    spec = AdaptSpec.model_validate(
        {
            "base_model": "base",
            "task": "sort_descending",
            "method": method,
            "tuning": {"trials": trials},
            "seeds": 1,
        }
    )
    facts = BaseModelFacts(name="base", digest="0", family=base, task=None, replicates=1)
    return resolve(spec, facts).training.learning_rates


@pytest.mark.parametrize("method", [Lora, PrefixTuning, FullFinetuning])
def test_a_large_base_has_learning_rates_of_its_own(method: type[Method]) -> None:
    rates = method.large_base_rates
    assert rates is not None
    named: dict[str, object] = {"name": method.model_fields["name"].default, **SIZES[method]}
    assert rates_of(named, 1, LARGE) == (rates.default,)
    assert rates_of(named, 3, LARGE)[::2] == pytest.approx(rates.limits)
    assert rates_of(named, 3, SMALL)[::2] == pytest.approx(method.learning_rate_range)


def test_a_combination_on_a_large_base_goes_by_the_rates_of_its_parts_there() -> None:
    parts: list[dict[str, object]] = [
        {"name": "prefix_tuning", "length": 1},
        {"name": "lora", "rank": 1},
    ]
    each = [rates_of(part, 3, LARGE) for part in parts]
    together = rates_of({"name": "combine", "parts": parts}, 3, LARGE)
    assert together == pytest.approx([geometric_mean(rates) for rates in zip(*each, strict=True)])


def test_the_largest_model_that_was_measured_as_small_is_small() -> None:
    """The paper's model keeps the rates that its studies are based on.

    It has 4 layers and width 256.
    """
    paper = MiniGPT(layers=4, heads=4, width=256).resolved(vocabulary=17, context=40)
    assert paper.shape().parameters < LARGE_BASE <= LARGE.shape().parameters
