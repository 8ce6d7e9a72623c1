"""The best constant answer to questions of digits, by enumeration."""

from collections import Counter
from itertools import product

import pytest

from adaptlab.plugins.constant_answers import FEW, share_of_counts, share_of_sorted
from adaptlab.plugins.task import QuestionLaw
from adaptlab.tasks.double_histogram import DoubleHistogram
from adaptlab.tasks.sort_descending import SortDescending

LAWS = [
    QuestionLaw(length, alphabet, few)
    for length, alphabet, few in ((3, 4, True), (4, 3, False), (6, 7, True), (6, 7, False))
]


def best(law: QuestionLaw, answer: str) -> float:
    """The weight of the most common answer among all questions."""
    weights: Counter[object] = Counter()
    for digits in product(range(law.alphabet), repeat=law.length):
        is_rare = law.few_distinct and len(set(digits)) > FEW
        counts = tuple(digits.count(one) for one in digits)
        weights[tuple(sorted(digits)) if answer == "sorted" else counts] += 1 if is_rare else 2
    return max(weights.values()) / sum(weights.values())


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_most_common_sorted_digits_are_those_of_an_enumeration(law: QuestionLaw) -> None:
    assert share_of_sorted(law) == pytest.approx(best(law, "sorted"))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_most_common_counts_are_those_of_an_enumeration(law: QuestionLaw) -> None:
    assert share_of_counts(law) == pytest.approx(best(law, "counts"))


def test_always_answering_two_scores_six_percent_of_histograms() -> None:
    # Three of five digits, each twice, in any order: 10 * 90 of 5^6 questions.
    task = DoubleHistogram(length=6, alphabet=5)
    assert task.constant_answer() == pytest.approx(10 * 90 / 5**6)
    assert task.chance() < task.constant_answer()


def test_a_list_of_questions_has_no_known_constant_answer() -> None:
    assert share_of_sorted(QuestionLaw(3, 4, few_distinct=True, listed="some")) == 0.0
    assert share_of_counts(QuestionLaw(3, 4, few_distinct=True, listed="some")) == 0.0


def test_long_answers_are_hardly_ever_constant() -> None:
    assert SortDescending(length=10, alphabet=8).constant_answer() < 0.001
