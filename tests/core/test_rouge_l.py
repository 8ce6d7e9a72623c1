"""ROUGE-L of answers is that of rouge-score."""

import json
import random
import subprocess
import sys
from collections.abc import Sequence

import pytest

from adaptlab.metrics.rouge_l import common_subsequence
from adaptlab.plugins.metric import METRICS

METRIC = METRICS.get("rouge_l")
PIECES = ("cat ", "The ", "dogs", "-", " 3", "é", "a ", "!", "Über", "\n", "ran ")
REFERENCE = """
import json, sys
from rouge_score.rouge_scorer import RougeScorer
score = RougeScorer(["rougeL"], use_stemmer=False).score
pairs = json.load(sys.stdin)
print(json.dumps([score(right, given)["rougeL"].fmeasure for given, right in pairs]))
"""


def of_rouge_score(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the scores of given and right answers by the library.

    It has a process of its own, because it loads a second pool of threads, beside which kernels
    are not compiled.
    """
    found = subprocess.run(
        [sys.executable, "-c", REFERENCE],
        input=json.dumps(pairs), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(found.stdout)


def test_it_is_that_of_rouge_score() -> None:
    draw = random.Random(0)
    pairs = [
        ("cats and " + "".join(draw.choices(PIECES, k=draw.randrange(60))),
         "cats and " + "".join(draw.choices(PIECES, k=draw.randrange(60))))
        for _ in range(400)
    ]  # fmt: skip
    pairs.append((" ".join(draw.choices("abcdefgh", k=700)), " ".join(draw.choices("hgf", k=700))))
    found = [METRIC.of_answer(given, right)[0] for given, right in pairs]
    assert found == pytest.approx(of_rouge_score(pairs), rel=1e-12)


def test_a_long_answer_has_no_cap() -> None:
    assert common_subsequence(["a"] * 20_000, ["b", "a"] * 10_000) == 10_000


@pytest.mark.parametrize("right", ["東京は日本の首都です", "!!!", "éàü œuø 1", "Москва 1"])
def test_a_right_answer_that_is_not_read_is_refused_and_not_0(right: str) -> None:
    assert not METRIC.reads_answer(right)
    with pytest.raises(ValueError, match=r"ROUGE-L cannot read .* Use `metric: chrf`"):
        METRIC.of_answer(right, right)


def test_a_given_answer_without_words_shares_none() -> None:
    assert METRIC.of_answer("東京", "Tokyo is a city") == (0.0,)
    assert METRIC.reads_answer("Das Café über der Straße")
