"""Tasks with an empty split are refused.

They are so small that a split is empty, and are refused before anything is trained.
"""

import pytest

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.splits import Split, scarce_splits
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import Choice, PretrainSpec

TINY: dict[str, object] = {"name": "copy", "length": 1, "alphabet": 2}


def faults(task: dict[str, object], splits: tuple[Split, ...] = ("test",)) -> list[Problem]:
    with pytest.raises(InvalidSpec) as refused:
        resolve_task(Choice.model_validate(task), "/task", splits=splits)
    return list(refused.value.problems)


def accepted(task: dict[str, object]) -> None:
    resolve_task(Choice.model_validate(task), "/task")


def test_a_task_without_items_in_a_split_is_refused_with_the_length_that_has_some():
    splits: tuple[Split, ...] = ("train", "validation", "test")
    (problem,) = faults(TINY, splits)
    assert (problem.pointer, problem.code) == ("/task/length", "empty_split")
    assert "2 questions of length 1" in problem.detail
    (nearest,) = problem.nearest
    assert isinstance(nearest, int)
    accepted(TINY | {"length": nearest})
    assert faults(TINY | {"length": nearest - 1}, splits)


def test_the_task_whose_questions_are_asked_is_pointed_at():
    composed = {"name": "composition", "first": TINY, "then": {**TINY, "name": "reverse"}}
    mixed = {"name": "mixture", "tasks": [TINY, {**TINY, "name": "reverse"}]}
    every: tuple[Split, ...] = ("validation",)
    assert [one.pointer for one in faults(composed, every)] == ["/task/first/length"]
    assert [one.pointer for one in faults(mixed, every)] == ["/task/tasks/0/length"]
    # Only questions of the first are ever drawn: those of the second are its answers.
    first = {"name": "lookup", "length": 6, "alphabet": 2, "answer_length": 1}
    accepted({"name": "composition", "first": first, "then": {**TINY, "few_distinct": False}})


def test_what_is_not_split_can_be_as_small_as_it_likes():
    accepted({"name": "lookup", "length": 1, "alphabet": 2})


def test_a_task_that_is_only_scored_needs_test_items_alone():
    scored = {"name": "copy", "length": 1, "alphabet": 7}
    assert scarce_splits(1, 7) == ("validation",)
    document = {"name": "base", "family": "minigpt", "task": "copy"}
    evaluated = {**document, "evaluation": {"tasks": [scored]}}
    resolve(PretrainSpec.model_validate(evaluated), None)
    with pytest.raises(InvalidSpec, match="no validation items"):
        resolve(PretrainSpec.model_validate(document | {"task": scored}), None)


def test_the_same_is_known_of_more_questions_than_can_be_counted():
    assert scarce_splits(512, 512) == ()
