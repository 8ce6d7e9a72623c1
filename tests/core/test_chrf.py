"""chrF of answers is that of sacreBLEU."""

import random

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from adaptlab.plugins.metric import METRICS

PIECES = ("a", "b", "ab", " ", "the ", "é", "\u3000", "東京", "👍", "Lima!", "\n")


@pytest.mark.parametrize("seed", range(20))
def test_it_is_that_of_sacrebleu(seed: int) -> None:
    draw = random.Random(seed)

    def text(most: int) -> str:
        return "".join(draw.choices(PIECES, k=draw.randrange(most)))

    longest = draw.choice((3, 12, 40))
    given = [text(longest) for _ in range(9)]
    right = [text(longest) if draw.random() < 0.6 else one for one in given]
    metric = METRICS.get("chrf")
    table = np.array([metric.of_answer(*pair) for pair in zip(given, right, strict=True)])
    expected = CHRF().corpus_score(given, [right]).score / 100
    assert metric.value(table) == pytest.approx(expected)
