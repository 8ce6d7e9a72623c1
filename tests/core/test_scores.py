"""Scores side by side: names of tasks, and changes of scores.

A change is from the base model to the adapted one.
"""

from dataclasses import dataclass

import pytest

from adaptlab.comparisons.scores import has_right_answers, score_changes, task_labels

SORT: dict[str, object] = {"name": "sort_ascending", "length": 3}
LONGER: dict[str, object] = {"name": "sort_ascending", "length": 4}


@dataclass(frozen=True)
class Score:
    """An evaluation of ten items."""

    replicate: int
    task: dict[str, object]
    correct: int
    attached: bool = True
    split: str = "test"
    total: int = 10
    effective_items: float | None = None


def test_tasks_of_one_name_are_told_apart_by_their_knobs() -> None:
    tasks = [{"name": "add", "k": 1, "length": 10}, {"name": "add", "k": 2, "length": 10}]
    assert task_labels([*tasks, {"name": "sort"}]) == ["add (k = 1)", "add (k = 2)", "sort"]


def test_a_change_pairs_the_seeds() -> None:
    # Seed 0 falls by 0.5, seed 2 by 0.1; seed 1 has no score of its base and is in no mean.
    attached = [Score(2, SORT, 8), Score(0, SORT, 3), Score(1, SORT, 10)]
    detached = [Score(0, SORT, 8, attached=False), Score(2, SORT, 9, attached=False)]
    (change,) = score_changes([*attached, *detached])
    assert (change.mean, change.low, change.high) == pytest.approx((-0.3, -0.5, -0.1))
    assert (change.before.mean, change.after.mean) == pytest.approx((0.85, 0.55))
    assert (change.task, change.seeds) == (SORT, 2)


def test_tasks_and_splits_are_kept_apart() -> None:
    scores = [
        Score(0, LONGER, 1),
        Score(0, SORT, 2),
        Score(0, SORT, 4, attached=False),
        Score(0, LONGER, 8, attached=False),
        Score(0, LONGER, 10, split="validation"),
    ]
    changes = score_changes(scores)
    assert [change.task for change in changes] == [LONGER, SORT]
    assert [change.mean for change in changes] == pytest.approx([-0.7, -0.2])


def test_a_base_model_has_no_change() -> None:
    assert score_changes([Score(0, SORT, 3), Score(1, SORT, 4)]) == ()


@pytest.mark.parametrize(
    "task",
    [
        {"name": "neutral_text", "dataset": "psalms"},
        {"name": "benchmark", "tasks": ["wikitext"], "metric": "bits_per_byte"},
    ],
)
def test_whole_texts_are_never_right(task: dict[str, object]) -> None:
    """Their share of right items would be 0, whatever a model has learned."""
    assert not has_right_answers(task)
    assert score_changes([Score(0, task, 0), Score(0, task, 0, attached=False)]) == ()


def test_items_of_other_tasks_can_be_right() -> None:
    tasks = [SORT, {"name": "benchmark", "tasks": ["arc_easy"]}, {"name": "of an extension"}]
    assert all(map(has_right_answers, tasks))
