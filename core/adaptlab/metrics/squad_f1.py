"""SQuAD F1: token F1 of answers without English articles.

Source: Rajpurkar et al. (EMNLP 2016), section 6.1. `token_f1` keeps articles, for any language.
"""

import re
import string
from typing import ClassVar

from adaptlab.metrics.token_f1 import token_f1
from adaptlab.plugins.metric import MeanMetric, Needs, registered

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@registered
class SquadF1(MeanMetric):
    """The mean SQuAD F1 of decoded answers, each an item's statistic."""

    name: ClassVar[str] = "squad_f1"
    title: ClassVar[str] = "SQuAD F1"
    meaning: ClassVar[str] = (
        "the overlap of the words of given and right answers, without a, an and the, as for SQuAD, "
        "for tasks with this metric"
    )
    needs: ClassVar[Needs] = "answers"
    counts_no_answer: ClassVar[bool] = True

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        return (token_f1(squad_words(given), squad_words(right)),)


def squad_words(text: str) -> list[str]:
    """Return the words of an English answer, as SQuAD compares them.

    They have small letters, no ASCII punctuation, and no article is among them.
    """
    plain = text.lower().translate(_WITHOUT_PUNCTUATION)
    return _ARTICLE.sub(" ", plain).split()
