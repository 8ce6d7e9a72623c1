"""What a metric is worth without skill."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.texts import COMPLETION, Stored, reviews, stored

from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.measuring.metric_floors import unskilled
from adaptlab.plugins.metric import METRICS
from adaptlab.runs.events import MetricFloor
from adaptlab.statistics.scores import best_floor

ANSWERS: dict[str, Any] = {**COMPLETION, "tokens": {"longest": 64, "answer": 16}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Three of four answers are the same."""
    names = ["train"] * 100 + ["test"] * 20 + ["validation"] * 4
    records = [
        {**one, "thing": " a red car" if number % 4 else " no", "split": name}
        for number, (one, name) in enumerate(zip(reviews(len(names)), names, strict=True))
    ]
    return stored(tmp_path_factory.mktemp("data"), records)


def floor(data: Stored, metric: str, statistics: Any) -> tuple[float, str]:
    own = {} if metric == "macro_f1" else {"metric": metric}  # labels are in the statistics
    task = data.task({**ANSWERS, **own, "splits": {"field": "split"}})
    found = unskilled(task, METRICS.get(metric), np.asarray(statistics, np.float64))
    assert found is not None
    return found.value, found.kind


def test_a_constant_answer_is_worth_what_it_shares_with_the_right_ones(data: Stored) -> None:
    value, kind = floor(data, "token_f1", np.zeros((20, 1)))
    assert (value, kind) == (pytest.approx(15 / 20), "constant_answer")
    chrf, _ = floor(data, "chrf", np.zeros((20, 18)))
    assert 0.75 < chrf < 1


def test_words_predict_themselves_by_their_shares(data: Stored) -> None:
    value, kind = floor(data, "perplexity", np.zeros((20, 2)))
    assert kind == "constant_answer"
    assert 2 < value < 20


@pytest.mark.parametrize(("rare", "kind"), [(50, "guessing"), (1, "constant_answer")])
def test_labels_are_guessed_or_always_the_same(data: Stored, rare: int, kind: str) -> None:
    right = np.array([0] * (100 - rare) + [1] * rare, np.float64)
    value, found = floor(data, "macro_f1", np.stack((right, right), 1))
    assert found == kind
    always = METRICS.get("macro_f1").value(np.stack((right, np.zeros(100)), 1))
    assert value >= always


def test_the_best_floor_of_a_perplexity_is_the_lowest() -> None:
    found = [MetricFloor(value=value, kind="base_alone") for value in (5.0, 3.0)]
    assert best_floor(METRICS.get("perplexity"), [None, *found]) == found[1]
    assert best_floor(METRICS.get("token_f1"), found) == found[0]
    assert best_floor(METRICS.get("chrf"), [None]) is None


def test_copying_the_prompt_is_a_floor(tmp_path: Path) -> None:
    """Where answers repeat what was asked, it needs no skill."""
    words = ("red", "blue", "green", "old", "new", "big", "low", "wet", "dry")
    rows = [
        {"text": f"{first} {second} {third}", "told": f" {first} {second} {third} too"}
        for first in words for second in words for third in words
    ]  # fmt: skip
    task = {**ANSWERS, "prompt": "{text}:", "answer": {"field": "told"}, "metric": "token_f1"}
    task["tokens"] = {"longest": 64, "answer": 24}
    data = stored(tmp_path, rows)
    found = unskilled(data.task(task), METRICS.get("token_f1"), np.zeros((20, 1)))
    assert found is not None
    assert found.kind == "copied_prompt"
    assert found.value == pytest.approx(2 * 3 / 7)
    stopped = {**task, "decoding": {"stop": [" "]}}
    cut = unskilled(data.task(stopped), METRICS.get("token_f1"), np.zeros((20, 1)))
    assert cut is not None
    assert cut.value < found.value


def test_a_copy_is_as_long_as_an_answer(tmp_path: Path) -> None:
    data = stored(tmp_path, [{"text": f"{n} is a number", "told": f" {n}"} for n in range(99)])
    task = data.task(
        {**ANSWERS, "prompt": "{text}:", "answer": {"field": "told"}, "metric": "chrf",
         "tokens": {"longest": 24, "answer": 5}}
    )  # fmt: skip
    assert max(len(item_texts(task).copied(place)) for place in range(9)) == 5
