"""Token F1 of two answers, by hand and by its definition."""

import random
from fractions import Fraction

import pytest

from adaptlab.metrics.token_f1 import answer_words, token_f1

CASES = {
    "equal": ("Lima", "Lima", Fraction(1)),
    "case and punctuation": ("“LIMA”, Peru!", "lima peru", Fraction(1)),
    "one word too many": ("in Lima", "Lima", Fraction(2, 3)),
    "half of the words": ("the red house", "a red car park", Fraction(2, 7)),
    "a word counts as often as both have it": ("no no no", "no yes no", Fraction(2, 3)),
    "order does not count": ("b a", "a b", Fraction(1)),
    "nothing shared": ("Lima", "Cuzco", Fraction(0)),
    "nothing given": ("", "Lima", Fraction(0)),
    "only spaces given": (" \n", "Lima", Fraction(0)),
    "both without words": ("  ", "", Fraction(1)),
    "punctuation alone is itself": ("?!", "?!", Fraction(1)),
    "other punctuation": ("?", "!", Fraction(0)),
    "punctuation for a word": ("…", "Lima", Fraction(0)),
    "a word for punctuation": ("Lima", "…", Fraction(0)),
    "punctuation inside of words": ("U.S.", "us", Fraction(1)),
    "articles count": ("the end", "end", Fraction(2, 3)),
    "Unicode punctuation": ("«¿Qué?» — 3・4", "qué 34", Fraction(1)),
    "compatible forms": ("\uff2c\uff49\uff4d\uff41\uff01", "Lima", Fraction(1)),
    "symbols are words": ("👍", "👎", Fraction(0)),
    "no spaces, one word": ("东京都", "东京", Fraction(0)),
}


@pytest.mark.parametrize("name", CASES)
def test_f1_is_that_of_the_words(name: str) -> None:
    given, right, expected = CASES[name]
    assert token_f1(answer_words(given), answer_words(right)) == pytest.approx(float(expected))


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    draw = random.Random(3)
    seen = set[Fraction]()
    for _ in range(300):
        given, right = (draw.choices("abcd", k=draw.randrange(1, 6)) for _ in range(2))
        left, shared = list(right), 0
        for word in given:
            if word in left:
                left.remove(word)
                shared += 1
        expected = Fraction(0)
        if shared:
            precision, recall = Fraction(shared, len(given)), Fraction(shared, len(right))
            expected = 2 * precision * recall / (precision + recall)
        seen.add(expected)
        assert token_f1(given, right) == pytest.approx(float(expected))
    assert len(seen) > 8
