"""SQuAD's metrics, which leave English articles out."""

import pytest

from adaptlab.plugins.metric import METRICS


@pytest.mark.parametrize(
    ("given", "right", "exact", "overlap"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1, 1),
        ("a an the", "", 1, 1),
        ("in the  city of Paris", "Paris", 0, 2 * 1 / (4 + 1)),
        ("another", "other", 0, 0),
        ("U.S. dollars", "US dollars", 1, 1),
        ("", "Paris", 0, 0),
    ],
)
def test_answers_are_compared_as_for_squad(
    given: str, right: str, exact: float, overlap: float
) -> None:
    assert METRICS.get("squad_exact_match").of_answer(given, right) == (exact,)
    assert METRICS.get("squad_f1").of_answer(given, right) == (pytest.approx(overlap),)


def test_they_are_other_metrics_than_ours() -> None:
    """Which keep articles, as other languages have other ones."""
    given, right = "the cat", "cat"
    assert METRICS.get("squad_f1").of_answer(given, right) == (1,)
    assert METRICS.get("token_f1").of_answer(given, right) == (pytest.approx(2 / 3),)
