"""Early stopping by a task's metric: the last step and the kept weights."""

import math
from pathlib import Path
from typing import Any

import pytest
from tests.engine.making import Remembering
from tests.engine.sign_texts import (
    LABELS,
    VALIDATION,
    WORDS,
    Base,
    adapting,
    decided,
    results,
    signs,
    skewed_base,
)
from tests.engine.stopping import changed, points
from tests.texts import Stored, stored
from torch import Tensor

from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training import train
from adaptlab.engine.training.passes import ReplicatePass
from adaptlab.specs.spec import EarlyStopping, Trial

STEPS, VALIDATIONS = 120, 30
EVERY = STEPS // VALIDATIONS
PATIENCE = 4
RATES = 1e-9, 1e-3, 0.01


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Records of which ! is more often positive, but less so in validation."""
    records = [
        *signs("train", 400, 0.45, 0.2),
        *signs("validation", VALIDATION, 0.2, 0.24),
        *signs("test", 20, 0.5, 0),
    ]
    return stored(tmp_path_factory.mktemp("data"), records, "signs")


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    """Models that answer each text with the negative word, by task."""
    records = [
        *signs("train", 200, 0.01, 0.5), *signs("validation", 20, 0.1, 0),
        *signs("test", 20, 0.1, 0),
    ]  # fmt: skip
    return {
        str(task["name"]): skewed_base(tmp_path_factory.mktemp("base"), task, records, 60)
        for task in (LABELS, WORDS)
    }


def stopping(
    data: Stored, base: Base, folder: Path, task: dict[str, Any], min_delta: float = 0.0
) -> Remembering:
    """Return the events of an adaptation at all rates that stops early."""
    rule = EarlyStopping(patience=PATIENCE, min_delta=min_delta)
    spec = adapting(data, base[0], task, STEPS, VALIDATIONS)
    trials = tuple(Trial(learning_rate=rate, weight_decay=0.0) for rate in RATES)
    spec = changed(spec, trials=trials, early_stopping=rule, schedule="constant")
    return decided(spec, base[1], folder, data, base[2])


def curve(told: Remembering, name: str, replicate: int) -> dict[int, float]:
    """Return the points of a replicate's curve by step."""
    return {
        point.step: point.value
        for point in points(told)
        if (point.name, point.replicate) == (name, replicate) and point.value is not None
    }


def expected(
    values: dict[int, float], losses: dict[int, float], min_delta: float = 0.0
) -> tuple[int, float]:
    """Return the last step and the kept value by two curves."""
    best, lowest, waited, end = -math.inf, math.inf, 0, STEPS
    for step in sorted(values):
        is_better = values[step] > best + min_delta
        is_tie = values[step] >= best and losses[step] < lowest - min_delta
        waited = 0 if is_better or is_tie else waited + 1
        if waited == 0:
            best, lowest = values[step], losses[step]
        if waited == PATIENCE:
            end = step
            break
    return end, best


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("min_delta", [0.0, 0.01])
@pytest.mark.parametrize(
    ("task", "metric"), [(LABELS, "macro_f1"), (WORDS, "token_f1")], ids=lambda one: str(one)[:9]
)
def test_a_replicate_ends_and_keeps_by_the_metric_of_the_task(
    data: Stored,
    bases: dict[str, Base],
    task: dict[str, Any],
    metric: str,
    min_delta: float,
    tmp_path: Path,
) -> None:
    told = stopping(data, bases[task["name"]], tmp_path, task | {"metric": metric}, min_delta)
    by_loss: list[int] = []
    without_ties: list[int] = []
    for one in results(told):
        scores = curve(told, f"validation_{metric}", one.replicate)
        losses = curve(told, "validation_loss", one.replicate)
        end, kept = expected(scores, losses, min_delta)
        assert (one.steps, max(scores)) == (end, end)
        assert one.status == ("stopped" if end < STEPS else "completed")
        assert one.validation_metric == pytest.approx(kept)  # of the same 100 records
        by_loss.append(expected(dict.fromkeys(losses, 0.0), losses, min_delta)[0])
        without_ties.append(expected(scores, dict.fromkeys(losses, 0.0), min_delta)[0])
    steps = [one.steps for one in results(told)]
    assert by_loss != steps, "the loss would have stopped likewise"
    assert without_ties != steps, "the metric alone would have stopped likewise"


@pytest.mark.long("long trainings")
@pytest.mark.parametrize(
    ("task", "metric"),
    [(LABELS, "accuracy"), (WORDS, "exact_match"), (WORDS, "perplexity")],
)
def test_otherwise_it_ends_by_the_loss(
    data: Stored, bases: dict[str, Base], task: dict[str, Any], metric: str, tmp_path: Path
) -> None:
    told = stopping(data, bases[task["name"]], tmp_path, task | {"metric": metric})
    assert {point.name for point in points(told)} == {
        "train_loss", "validation_loss", "validation_accuracy"
    }  # fmt: skip
    for one in results(told):
        losses = curve(told, "validation_loss", one.replicate)
        assert one.steps == expected(dict.fromkeys(losses, 0.0), losses)[0]
        if metric == "perplexity":
            assert one.validation_metric == pytest.approx(math.exp(min(losses.values())))


def test_right_answers_without_a_finite_loss_are_no_improvement(
    data: Stored, bases: dict[str, Base], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validation = train.validation
    measured: list[float] = []

    def broken(plan: Plan, one: ReplicatePass, samples: int) -> Tensor:
        values = validation(plan, one, samples)
        if len(measured) >= plan.replicates:  # after the first validation
            values[:, 0], values[:, 2] = math.nan, 1.0
        measured.extend(values[:, 2].tolist())
        return values

    monkeypatch.setattr(train, "validation", broken)
    told = stopping(data, bases["text_classification"], tmp_path, LABELS | {"metric": "macro_f1"})
    assert {one.steps for one in results(told)} == {EVERY * (1 + PATIENCE)}
