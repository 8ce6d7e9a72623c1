"""Token F1: the overlap of the words of given and right answers.

Source: Rajpurkar et al. (EMNLP 2016), section 6.1. Unlike there, English articles stay, because
answers can be in any language.
"""

import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from adaptlab.plugins.metric import MeanMetric, Needs, registered


@registered
class TokenF1(MeanMetric):
    """The mean token F1 of decoded answers, each an item's statistic."""

    name: ClassVar[str] = "token_f1"
    title: ClassVar[str] = "Token F1"
    meaning: ClassVar[str] = (
        "the overlap of the words of given and right answers, for tasks with this metric"
    )
    needs: ClassVar[Needs] = "answers"
    counts_no_answer: ClassVar[bool] = True

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        return (token_f1(answer_words(given), answer_words(right)),)


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


def _is_punctuation(sign: str) -> bool:
    return sign in string.punctuation or unicodedata.category(sign).startswith("P")
