"""ROUGE-L of answers is that of rouge-score."""

import importlib
import random
from typing import Any

import pytest

from adaptlab.metrics.rouge_l import common_subsequence
from adaptlab.plugins.metric import METRICS

METRIC = METRICS.get("rouge_l")
PIECES = ("cat ", "The ", "dogs", "-", " 3", "é", "a ", "!", "Über", "\n", "ran ")


@pytest.fixture(scope="module")
def reference() -> Any:
    module = importlib.import_module("rouge_score.rouge_scorer")
    return module.RougeScorer(["rougeL"], use_stemmer=False)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_that_of_rouge_score(seed: int, reference: Any) -> None:
    draw = random.Random(seed)
    for _ in range(10):
        right, given = (
            "cats and " + "".join(draw.choices(PIECES, k=draw.randrange(60))) for _ in range(2)
        )
        expected = reference.score(right, given)["rougeL"].fmeasure
        assert METRIC.of_answer(given, right) == (pytest.approx(expected, rel=1e-12),)


def test_a_long_answer_has_no_cap(reference: Any) -> None:
    draw = random.Random(3)
    right, given = (" ".join(draw.choices("abcdefgh", k=700)) for _ in range(2))
    expected = reference.score(right, given)["rougeL"].fmeasure
    assert METRIC.of_answer(given, right) == (pytest.approx(expected, rel=1e-12),)
    assert common_subsequence(["a"] * 20_000, ["b", "a"] * 10_000) == 10_000


@pytest.mark.parametrize("right", ["東京は日本の首都です", "!!!", "éàü œuø 1", "Москва 1"])
def test_a_right_answer_that_is_not_read_is_refused_and_not_0(right: str) -> None:
    assert not METRIC.reads_answer(right)
    with pytest.raises(ValueError, match=r"ROUGE-L cannot read .* Use `metric: chrf`"):
        METRIC.of_answer(right, right)


def test_a_given_answer_without_words_shares_none() -> None:
    assert METRIC.of_answer("東京", "Tokyo is a city") == (0.0,)
    assert METRIC.reads_answer("Das Café über der Straße")
