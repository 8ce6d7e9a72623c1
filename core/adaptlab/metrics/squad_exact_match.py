"""Exact match of answers as for SQuAD, without articles and punctuation.

Source: Rajpurkar et al. (EMNLP 2016), section 6.1. `exact_match` compares tokens instead.
"""

from typing import ClassVar

from adaptlab.metrics.squad_f1 import squad_words
from adaptlab.plugins.metric import MeanMetric, Needs, registered


@registered
class SquadExactMatch(MeanMetric):
    """The share of decoded answers that are equal to the right ones."""

    name: ClassVar[str] = "squad_exact_match"
    title: ClassVar[str] = "SQuAD exact match"
    meaning: ClassVar[str] = (
        "the share of answers that equal the right one without case, punctuation, a, an and the, "
        "as for SQuAD, for tasks with this metric"
    )
    needs: ClassVar[Needs] = "answers"
    counts_no_answer: ClassVar[bool] = True

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        return (float(squad_words(given) == squad_words(right)),)
