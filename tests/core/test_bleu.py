"""BLEU of answers is that of sacreBLEU."""

import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from adaptlab.plugins.metric import METRICS

PIECES = (
    "the ",
    "cat ",
    "sat",
    " on",
    "-",
    "3.5 ",
    "U.S.",
    "é",
    "東京",
    "&quot;",
    "\n",
    "!",
    " a ",
)
METRIC = METRICS.get("bleu")


def value(given: list[str], right: list[str]) -> float:
    return METRIC.value(np.array([*map(METRIC.of_answer, given, right)]))


@pytest.mark.parametrize("seed", range(40))
def test_it_is_that_of_sacrebleu(seed: int) -> None:
    draw = random.Random(seed)

    def text(most: int) -> str:
        return "".join(draw.choices(PIECES, k=draw.randrange(most)))

    longest = draw.choice((3, 12, 40))
    given = [text(longest) for _ in range(9)]
    right = [text(longest) if draw.random() < 0.7 else one for one in given]
    expected = BLEU().corpus_score(given, [right]).score
    assert 100 * value(given, right) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_statistics_of_items_add_up_to_those_of_all() -> None:
    given, right = ["the cat sat here now", "no"], ["the cat sat here then", "no it is not"]
    rows = np.array([*map(METRIC.of_answer, given, right)])
    whole = BLEU().corpus_score(given, [right])
    expected = [whole.sys_len, whole.ref_len, *whole.counts, *whole.totals]
    assert rows.sum(axis=0).tolist() == expected
    assert rows.shape == (2, 10)


def test_its_signature_has_the_library_and_its_settings() -> None:
    assert METRIC.signature().startswith("1|sacrebleu|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")


def test_right_answers_of_three_words_have_no_bleu_and_a_caution() -> None:
    rows = np.array([METRIC.of_answer("it is red", "it is red")] * 50)
    assert METRIC.value(rows) == 0
    assert METRIC.caution(rows) == (
        "BLEU counts runs of up to 4 words, but 100 % of the right answers have fewer than 4 "
        "words, so it is 0 even if all are right. Use `metric: chrf` for them."
    )
    longer = np.array([METRIC.of_answer("x", "it is red and blue")] * 51)
    assert METRIC.caution(np.concatenate((rows, longer))) is None
