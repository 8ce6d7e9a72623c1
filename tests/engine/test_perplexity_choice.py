"""The lowest perplexity chooses trials, at the end and at rungs."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.making import Remembering
from tests.engine.sign_texts import (
    VALIDATION,
    WORDS,
    Base,
    adapting,
    decided,
    results,
    signs,
    skewed_base,
)
from tests.engine.stopping import changed
from tests.texts import Stored, stored

from adaptlab.engine.measuring.evaluate import Judged
from adaptlab.engine.measuring.measuring import likelihoods
from adaptlab.engine.training.choice import best_first
from adaptlab.engine.training.outcome import TrainingOutcome
from adaptlab.engine.training.validation_standings import Standings
from adaptlab.metrics.perplexity import LARGEST_PERPLEXITY
from adaptlab.plugins.metric import METRICS
from adaptlab.runs.events import Metrics
from adaptlab.runs.item_statistics import packed, unpacked
from adaptlab.specs.spec import Trial

RATES = KEEPS, LEARNS, DIVERGES = 1e-9, 0.01, 1e200
COMMON = 0.8
"""The accuracy of always giving the common word."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Records of which ! tells more likely p, but in validation more often n."""
    records = [
        *signs("train", 1000, 0.45, 0.2),
        *signs("validation", VALIDATION, 0.2, 0.24),
        *signs("test", 20, 0.5, 0),
    ]
    return stored(tmp_path_factory.mktemp("data"), records, "signs")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A model that is sure of the answer n to every text."""
    folder = tmp_path_factory.mktemp("base")
    records = [
        *signs("train", 1000, 0.003, 0.5),
        *signs("validation", 20, 0.1, 0),
        *signs("test", 20, 0.1, 0),
    ]
    return skewed_base(folder, WORDS, records, 200)


def adapted(
    data: Stored, base: Base, folder: Path, metric: str, rates: tuple[float, ...], **tuning: Any
) -> Remembering:
    """Return the events of an adaptation at some rates."""
    task = WORDS | {"metric": metric}
    spec = adapting(data, base[0], task, 160, validations=1, **tuning)
    trials = tuple(Trial(learning_rate=rate, weight_decay=0.0) for rate in rates)
    return decided(changed(spec, trials=trials), base[1], folder, data, base[2])


def last_points(told: Remembering, name: str) -> dict[int, float | None]:
    points = [point for event in told.of(Metrics) for point in event.points]
    return {point.replicate: point.value for point in points if point.name == name}


@pytest.mark.long("long trainings")
@pytest.mark.parametrize("selection", ["per_seed", "pooled"])
def test_exact_match_and_perplexity_choose_different_rates(
    data: Stored, base: Base, selection: str, tmp_path: Path
) -> None:
    chosen: dict[str, set[float]] = {}
    for metric in ("exact_match", "perplexity"):
        (folder := tmp_path / metric).mkdir()
        told = adapted(data, base, folder, metric, RATES, selection=selection)
        losses = last_points(told, "validation_loss")
        for one in results(told):
            if one.learning_rate == DIVERGES:
                assert (one.status, one.selected, one.validation_metric) == (
                    "diverged",
                    False,
                    None,
                )
                continue
            assert one.validation_accuracy is not None
            assert (one.validation_accuracy >= COMMON) == (one.learning_rate == KEEPS)
            # the curve is measured on the same items
            expected = math.exp(losses[one.replicate] or math.nan)
            assert one.validation_metric == (
                pytest.approx(expected) if metric == "perplexity" else None
            )
        chosen[metric] = {one.learning_rate for one in results(told) if one.selected}
    assert chosen == {"exact_match": {KEEPS}, "perplexity": {LEARNS}}


@pytest.mark.long("long trainings")
@pytest.mark.parametrize("selection", ["per_seed", "pooled"])
def test_rungs_keep_the_lowest_perplexity(
    data: Stored, base: Base, selection: str, tmp_path: Path
) -> None:
    halved = {"halving": {"rungs": 1}, "selection": selection}
    told = adapted(data, base, tmp_path, "perplexity", RATES[:2], **halved)
    at_rung = last_points(told, "rung_perplexity")
    assert at_rung.keys() == {0, 1, 2, 3}
    for one in results(told):
        is_kept = one.learning_rate == LEARNS
        assert (one.status, one.selected) == (
            ("completed", True) if is_kept else ("eliminated", False)
        )
        if not is_kept:
            assert one.validation_metric == at_rung[one.replicate]
            assert (at_rung[one.replicate] or 0) > (at_rung[one.replicate + 1] or 0) >= 1


def order(perplexities: list[list[float | None]]) -> list[int]:
    """Return pooled trials of seeds from best to worst; None has diverged."""
    seeds, trials = len(perplexities), len(perplexities[0])
    outcome = TrainingOutcome.untrained(seeds * trials)
    measured: dict[int, float] = {}
    for seed, of_seed in enumerate(perplexities):
        for trial, value in enumerate(of_seed):
            replicate = seed * trials + trial
            outcome.final_losses[replicate] = 1.0
            outcome.diverged[replicate] = value is None
            if value is not None:
                measured[replicate] = value
    accuracy = {replicate: 1 / value for replicate, value in measured.items()}
    contest = [range(trial, seeds * trials, trials) for trial in range(trials)]
    standings = Standings(accuracy, measured, METRICS.get("perplexity"))
    return [ranked[0] for ranked in best_first(contest, outcome, standings)]


@pytest.mark.parametrize("loss", [math.inf, math.nan, 1e35])
def test_one_loss_that_is_not_finite_makes_the_largest_perplexity(loss: float) -> None:
    """However many items have a small one."""
    metric = METRICS.get("perplexity")
    losses = torch.full((2, 999), 0.1, dtype=torch.float64)
    losses[1, 7] = loss
    right = torch.zeros(2, 999, dtype=torch.bool)
    found = Judged(right, losses=losses, counted=torch.ones(999, dtype=torch.float64))
    sound, lost = likelihoods(found)
    assert metric.value(sound) == pytest.approx(math.exp(0.1))
    assert metric.value(lost) == LARGEST_PERPLEXITY
    assert metric.value(unpacked(packed(lost), 999, 2)) == LARGEST_PERPLEXITY


def test_pooled_a_diverged_replicate_counts_as_the_largest_perplexity() -> None:
    assert order([[9.0, 8.0, 7.0], [3.0, 5.0, 7.0]]) == [0, 1, 2]
    assert order([[2.0, 90.0, 5.0], [None, 80.0, 5e5]]) == [1, 2, 0]
    # of equally many diverged ones, the others decide, and an immense one is as bad
    assert order([[7.0, 3.0, 5.0], [None, None, None]]) == [1, 2, 0]
    assert order([[3.0, 2.0], [LARGEST_PERPLEXITY, None]]) == [1, 0]
