"""F1 scores against their definition, and what is refused of confusions."""

import math
from fractions import Fraction
from typing import Any

import pytest
from tests.making import an_evaluation

from adaptlab.metrics.macro_f1 import f1_scores, macro_f1
from adaptlab.runs.events import Confusion
from adaptlab.runs.reported_confusions import confusion_problems
from adaptlab.statistics.confusions import mean_counts, mean_over_seeds


def by_definition(pairs: list[tuple[int, int]]) -> Fraction:
    """Macro-F1 of pairs of right and given labels, by precision and recall."""
    scores: list[Fraction] = []
    for label in {label for pair in pairs for label in pair}:
        hits = sum(pair == (label, label) for pair in pairs)
        right = sum(pair[0] == label for pair in pairs)
        given = sum(pair[1] == label for pair in pairs)
        if not hits:
            scores.append(Fraction(0))
            continue
        precision, recall = Fraction(hits, given), Fraction(hits, right)
        scores.append(2 * precision * recall / (precision + recall))
    return sum(scores, Fraction(0)) / len(scores)


def counted(pairs: list[tuple[int, int]], labels: int) -> list[list[int]]:
    counts = [[0] * labels for _ in range(labels)]
    for right, given in pairs:
        counts[right][given] += 1
    return counts


CASES = {
    "two": [(0, 0)] * 5 + [(0, 1)] * 2 + [(1, 0)] * 3 + [(1, 1)] * 7,
    "never given": [(0, 0)] * 6 + [(1, 0)] * 2 + [(2, 2)] * 3,
    "never right": [(0, 0)] * 6 + [(0, 1)] * 2 + [(2, 2)] * 3,
    "neither": [(0, 0)] * 6 + [(0, 2)] * 2 + [(2, 2)] * 3,
    "one alone": [(0, 0)] * 4,
    "all wrong": [(0, 1)] * 3 + [(1, 0)] * 2,
    "32": [(n % 32, (n * n) % 32) for n in range(500)],
}


@pytest.mark.parametrize("name", CASES)
def test_macro_f1_is_that_of_precision_and_recall(name: str):
    pairs = CASES[name]
    labels = 32 if name == "32" else 3
    found = macro_f1(counted(pairs, labels))
    assert math.isclose(found, by_definition(pairs), rel_tol=1e-12)


def test_labels_that_nothing_has_or_gives_have_no_score():
    assert f1_scores([[4, 0, 0], [2, 0, 0], [0, 0, 0]]) == (0.8, 0.0, None)
    assert macro_f1([[4, 0, 0], [2, 0, 0], [0, 0, 0]]) == 0.4
    with pytest.raises(ValueError, match="no items"):
        macro_f1([[0, 0], [0, 0]])


def test_means_over_seeds_have_students_interval():
    assert mean_counts([[[1, 2], [3, 4]], [[3, 2], [1, 0]]]) == ((2.0, 2.0), (2.0, 2.0))
    three = mean_over_seeds([0.5, 0.6, 0.7])
    assert math.isclose(three.mean, 0.6)
    # Student's 0.975 quantile with 2 degrees of freedom is 4.302653.
    assert three.low is not None
    assert three.high is not None
    assert math.isclose(three.high - 0.6, 4.302653 * 0.1 / math.sqrt(3), rel_tol=1e-6)
    assert math.isclose(0.6 - three.low, 4.302653 * 0.1 / math.sqrt(3), rel_tol=1e-6)
    one, wide = mean_over_seeds([0.5]), mean_over_seeds([0.0, 1.0])
    assert (one.mean, one.low, one.high) == (0.5, None, None)
    assert (wide.low, wide.high) == (0.0, 1.0)


LABELS = ("neg", "pos")
RIGHT = Confusion(labels=LABELS, counts=((5, 3), (1, 7)))  # 12 of 16


def codes(labels: tuple[str, ...] = LABELS, **changes: Any) -> list[tuple[str, str]]:
    confusion = RIGHT.model_copy(update=changes)
    found = confusion_problems("", an_evaluation(), confusion, labels)
    return [(problem.pointer.removeprefix("/confusion"), problem.code) for problem in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"labels": ("pos", "neg")}, []),
        ({"labels": ("neg", "neg")}, [("/labels", "other_labels")]),
        ({"labels": ("neg", "pos", "x")}, [("/labels", "other_labels")]),
        ({"counts": ()}, [("/counts", "wrong_length")]),
        ({"counts": ((5, 3), (8,))}, [("/counts", "wrong_length")]),
        ({"counts": ((5, 3), (1, 7), (0, 0))}, [("/counts", "wrong_length")]),
        ({"counts": ((5, -3), (7, 7))}, [("/counts", "out_of_range")]),
        ({"counts": ((5, 3), (2, 7))}, [("/counts", "other_than_resolved")]),
        ({"counts": ((6, 3), (0, 7))}, [("/counts", "other_than_resolved")]),
    ],
)
def test_a_confusion_agrees_with_labels_and_score(
    changes: dict[str, Any], expected: list[tuple[str, str]]
):
    assert codes(**changes) == expected


def test_tasks_without_few_labels_have_no_confusion():
    for labels in ((), ("one",), tuple(map(str, range(33)))):
        assert codes(labels) == [("", "not_asked_for")]


def test_the_majority_is_that_of_the_right_labels():
    counts = ((1, 6, 0), (0, 2, 0), (0, 1, 0))
    assert Confusion(labels=("a", "b", "c"), counts=counts).majority() == 0.7
    assert Confusion(labels=("a", "b"), counts=((0, 0), (0, 0))).majority() is None
