"""Token F1 of a given and a right answer, as texts.

Source: Rajpurkar et al. (EMNLP 2016), section 6.1. Unlike there, English articles stay, because
answers can be in any language.
"""

import math
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence


def answer_words(text: str) -> list[str]:
    """Return the words of an answer, without case and punctuation.

    Punctuation is removed and separates no words, so "U.S." is "us". An answer of punctuation alone
    keeps it.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(sign for sign in folded if not _is_punctuation(sign))
    return kept.split() or folded.split()


def token_f1(given: Sequence[str], right: Sequence[str]) -> float:
    """Return the F1 score of the words of a given answer.

    It is 2 · shared / (given + right), the harmonic mean of precision and recall, where a word
    counts as often as both answers have it. Two answers without words are equal, which is 1.
    """
    if not given and not right:
        return 1.0
    shared = (Counter(given) & Counter(right)).total()
    return 2 * shared / (len(given) + len(right))


def mean_token_f1(scores: Sequence[float]) -> float:
    """Return the mean of the scores of items, of which there is at least one."""
    return math.fsum(scores) / len(scores)


def _is_punctuation(sign: str) -> bool:
    return sign in string.punctuation or unicodedata.category(sign).startswith("P")
