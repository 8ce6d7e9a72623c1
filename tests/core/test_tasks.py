"""Tasks made of other tasks.

Tests cover which fit together, and where it is said that some do not.
"""

import pytest

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.task import DigitTask
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import Choice, PretrainSpec


def problems(**knobs: object) -> list[Problem]:
    with pytest.raises(InvalidSpec) as caught:
        resolve_task(Choice.model_validate(knobs), "/task")
    return list(caught.value.problems)


def faults(**knobs: object) -> dict[str, tuple[str, tuple[object, ...]]]:
    """Code and nearest values by pointer."""
    return {p.pointer: (p.code, p.nearest) for p in problems(**knobs)}


MIXED: dict[str, tuple[dict[str, object], dict[str, tuple[str, tuple[object, ...]]]]] = {
    "one task": ({"tasks": ["add"]}, {"/task/tasks": ("too_few_tasks", (2,))}),
    "a weight too few": (
        {"tasks": ["add", "copy"], "weights": [1]},
        {"/task/weights": ("weights_do_not_match", (2,))},
    ),
    "a weight of nothing": (
        {"tasks": ["add", "copy"], "weights": [1, 0]},
        {"/task/weights/1": ("greater_than", ())},
    ),
    "an unknown task": (
        {"tasks": ["add", {"name": "sorting"}]},
        {"/task/tasks/1/name": ("unknown_task", ("sort_ascending", "sort_descending"))},
    ),
    "no name": ({"tasks": ["add", {"length": 5}]}, {"/task/tasks/1/name": ("missing", ())}),
    "a wrong knob": (
        {"tasks": ["add", {"name": "add", "k": 0}]},
        {"/task/tasks/1/k": ("greater_than_equal", ())},
    ),
    "a mixture": (
        {"tasks": ["add", "mixture"]},
        {"/task/tasks/1/name": ("nested_mixture", ())},
    ),
    "another length": (
        {"tasks": ["add", {"name": "copy", "length": 4}]},
        {
            "/task/tasks/1/length": ("tasks_differ", (10,)),
            "/task/tasks/1/answer_length": ("tasks_differ", (10,)),
        },
    ),
    "another alphabet, a cue": (
        {"tasks": ["add", "inverse_binary"]},
        {"/task/tasks/1/alphabet": ("tasks_differ", (8,))},
    ),
    "another rule, a cue": (
        {"tasks": ["add", {"name": "copy", "few_distinct": False}]},
        {"/task/tasks/1/few_distinct": ("tasks_differ", (True,))},
    ),
    "a cue for one alone": (
        {"tasks": ["add", {"name": "cued", "task": "copy"}]},
        {"/task/tasks/0": ("tasks_differ", ())},
    ),
    "one cue for two": (
        {"tasks": [{"name": "cued", "task": "add"}, {"name": "cued", "task": "copy"}]},
        {"/task/tasks/1/cue": ("tasks_differ", ())},
    ),
    "another length behind a cue": (
        {
            "tasks": [
                {
                    "name": "cued",
                    "task": {
                        "name": "lookup",
                        "few_distinct": True,
                        "length": 5,
                        "answer_length": 10,
                    },
                },
                {
                    "name": "cued",
                    "task": {
                        "name": "lookup",
                        "few_distinct": True,
                        "length": 6,
                        "answer_length": 10,
                    },
                    "cue": 11,
                },
            ]
        },
        {"/task/tasks/1/task/length": ("tasks_differ", (5,))},
    ),
    "a fault inside": (
        {"tasks": ["add", {"name": "composition", "then": {"name": "add", "length": 3}}]},
        {"/task/tasks/1/then/length": ("length_does_not_match", (10,))},
    ),
}


@pytest.mark.parametrize(("knobs", "expected"), MIXED.values(), ids=MIXED)
def test_a_mixture_that_does_not_fit_is_refused_where_it_does_not(knobs, expected):
    assert faults(name="mixture", **knobs) == expected


COMPOSED: dict[str, tuple[dict[str, object], dict[str, tuple[str, tuple[object, ...]]]]] = {
    "answers beyond the alphabet": (
        {"first": {"name": "add", "k": 3}, "then": "sort_ascending"},
        {"/task/then/alphabet": ("alphabet_too_small", (11,))},
    ),
    "answers of another length": (
        {"first": {"name": "lookup", "answer_length": 3}, "then": "copy"},
        {"/task/then/length": ("length_does_not_match", (3,))},
    ),
    "a mixture": ({"then": "mixture"}, {"/task/then/name": ("nested_mixture", ())}),
    "a cue inside": ({"first": "cued"}, {"/task/first/name": ("nested_cue", ())}),
}


@pytest.mark.parametrize(("knobs", "expected"), COMPOSED.values(), ids=COMPOSED)
def test_a_composition_that_does_not_fit_is_refused_where_it_does_not(knobs, expected):
    assert faults(name="composition", **knobs) == expected


def test_a_cue_is_no_token_of_questions_or_answers():
    add = {"name": "add", "k": 5}
    assert faults(name="cued", task=add, cue=12) == {"/task/cue": ("cue_is_a_digit", (13,))}
    assert faults(name="cued", task="cued") == {"/task/task/name": ("nested_cue", ())}
    assert faults(name="cued", task="mixture") == {"/task/task/name": ("nested_mixture", ())}


def test_a_cued_task_reads_one_token_more_and_leaves_room_for_another_cue():
    task = resolve_task(Choice.model_validate({"name": "cued", "task": "copy", "cue": 11}), "/task")
    assert (task.input_length(), task.target_length(), task.vocabulary()) == (11, 10, 13)
    assert task.input_error([11, *range(8), 0, 0]) is None
    wrong = task.input_error([10, *range(8), 0, 0])
    assert wrong is not None
    assert "the cue 11 and then 10 tokens, each below 8" in wrong
    mixture = resolve_task(
        Choice.model_validate(
            {
                "name": "mixture",
                "tasks": [{"name": "cued", "task": "copy"}] * 1
                + [{"name": "cued", "task": "add", "cue": 11}],
            }
        ),
        "/task",
    )
    assert mixture.input_error([10, *range(8), 0, 0]) is not None


def test_an_unknown_task_inside_lists_those_there_are():
    (problem,) = problems(name="mixture", tasks=["add", {"name": "sorting"}])
    assert "sort_ascending" in problem.allowed
    assert problem.detail == "There is no task named 'sorting'."


def test_what_a_composition_needs_follows_from_its_parts():
    first, then = {"name": "add", "k": 3}, {"name": "double_histogram", "alphabet": 11}
    choice = Choice.model_validate({"name": "composition", "first": first, "then": then})
    task = resolve_task(choice, "/task")
    assert isinstance(task, DigitTask)
    assert (task.input_length(), task.target_length()) == (10, 10)
    assert (task.input_alphabet(), task.answer_alphabet(), task.vocabulary()) == (8, 11, 13)
    assert task.chance() == pytest.approx(1e-10)


def test_a_base_for_a_count_of_ten_gets_eleven_tokens():
    spec = {"name": "base", "family": "minigpt", "task": "mixture"}
    own = resolve(PretrainSpec.model_validate(spec), None)
    assert as_json(own.family)["vocabulary"] == 10
    scored = {**spec, "evaluation": {"tasks": ["mixture", "double_histogram"]}}
    assert as_json(resolve(PretrainSpec.model_validate(scored), None).family)["vocabulary"] == 11
    other = {**spec, "task": "double_histogram", "evaluation": {"tasks": ["copy"]}}
    assert as_json(resolve(PretrainSpec.model_validate(other), None).family)["vocabulary"] == 11


def test_an_input_to_look_at_has_digits_of_the_alphabet():
    # Token 9 is in the vocabulary of ten, but 9 + 1 is not.
    spec = {
        "name": "base",
        "family": "minigpt",
        "task": "add",
        "capture": {"attention": {"inputs": [[9, *[0] * 9]]}},
    }
    with pytest.raises(InvalidSpec, match="below 8"):
        resolve(PretrainSpec.model_validate(spec), None)
