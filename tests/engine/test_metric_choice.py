"""A task's metric chooses trials, at the end and at rungs."""

from collections import defaultdict
from pathlib import Path

import pytest
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.sign_texts import (
    LABELS,
    VALIDATION,
    Base,
    adapting,
    decided,
    results,
    signs,
    skewed_base,
)
from tests.engine.text_jobs import pretraining
from tests.texts import COMPLETION, Stored, reviews, stored

from adaptlab.runs.events import CheckpointWritten, Metrics, ReplicateResult

ALWAYS_NEGATIVE = 0.8, (2 * 0.8 / 1.8) / 2
"""Accuracy, and macro-F1: the F1 of a label that is never given is 0."""
BY_THE_SIGN = 0.76, (2 * 0.2 / (2 * 0.2 + 0.24) + 2 * 0.56 / (2 * 0.56 + 0.24)) / 2
"""Likewise where 24 of 80 negative texts have the sign of positive ones."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Records on which learning the sign costs accuracy and gains macro-F1."""
    records = [
        *signs("train", 200, 0.5, 0),
        *signs("validation", VALIDATION, 0.2, 0.24),
        *signs("test", 20, 0.5, 0),
    ]
    return stored(tmp_path_factory.mktemp("data"), records, "signs")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A model that answers every text with the negative word."""
    folder = tmp_path_factory.mktemp("base")
    records = [
        *signs("train", 200, 0.01, 0.5), *signs("validation", 20, 0.1, 0),
        *signs("test", 20, 0.1, 0),
    ]  # fmt: skip
    return skewed_base(folder, LABELS, records, 60)


@pytest.mark.long("long trainings")
def test_accuracy_and_macro_f1_choose_different_rates(
    data: Stored, base: Base, tmp_path: Path
) -> None:
    chosen: dict[str, set[float]] = defaultdict(set)
    for metric in ("accuracy", "macro_f1"):
        spec = adapting(data, base[0], LABELS | {"metric": metric})
        (tmp_path / metric).mkdir()
        for one in results(decided(spec, base[1], tmp_path / metric, data, base[2])):
            accuracy, f1 = ALWAYS_NEGATIVE if one.learning_rate < 1e-3 else BY_THE_SIGN
            assert one.validation_accuracy == pytest.approx(accuracy)
            expected = pytest.approx(f1) if metric == "macro_f1" else None
            assert one.validation_metric == expected
            if one.selected:
                chosen[metric].add(one.learning_rate)
    assert chosen == {"accuracy": {1e-9}, "macro_f1": {0.01}}


def test_rungs_keep_what_the_metric_chooses(data: Stored, base: Base, tmp_path: Path) -> None:
    task = LABELS | {"metric": "macro_f1"}
    spec = adapting(data, base[0], task, halving={"rungs": 1}, selection="pooled")
    told = decided(spec, base[1], tmp_path, data, base[2])
    for one in results(told):
        is_kept = one.learning_rate > 1e-3
        assert (one.status, one.selected) == (
            ("completed", True) if is_kept else ("eliminated", False)
        )
        assert one.validation_metric == pytest.approx(
            BY_THE_SIGN[1] if is_kept else ALWAYS_NEGATIVE[1]
        )
    curves = {point.name for event in told.of(Metrics) for point in event.points}
    assert {"rung_accuracy", "rung_macro_f1"} <= curves


def test_token_f1_of_validation_answers_is_reported(tmp_path: Path) -> None:
    records = [{**one, "told": f" {one['label']} {one['thing']}"} for one in reviews(60)]
    data = stored(tmp_path, records)
    task = {**COMPLETION, "answer": {"field": "told"}, "metric": "token_f1"}
    task["tokens"] = {"longest": 64, "answer": 12}
    small = {"steps": 30, "batch_size": 8, "learning_rate": 0.01}
    spec = pretraining(data, task, seeds=1, training=small, evaluation={"samples": 8, "shown": 0})
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    (written,) = told.of(CheckpointWritten)
    tuned = adapting(data, spec, task, steps=10, validation_samples=5)
    scored = decided(tuned, written.path, tmp_path, data)
    for one in results(scored):
        assert one.validation_metric is not None
        assert one.validation_accuracy is not None
        assert one.validation_accuracy <= one.validation_metric <= 1
    by_seed: dict[int, list[ReplicateResult]] = defaultdict(list)
    for one in results(scored):
        by_seed[one.seed].append(one)
    for trials in by_seed.values():
        (kept,) = [one for one in trials if one.selected]
        assert kept.validation_metric == max(one.validation_metric or 0 for one in trials)
