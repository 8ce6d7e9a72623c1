"""Messages about a document that does not validate.

They are for people, with the names there are.
"""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from adaptlab.errors import Problem
from adaptlab.specs.spec import JobSpec
from adaptlab.studies.study import StudySpec
from adaptlab.validation import validation_problems

JOBS: TypeAdapter[object] = TypeAdapter(JobSpec)
STUDIES: TypeAdapter[object] = TypeAdapter(StudySpec)
ADAPT = {"kind": "adapt", "base_model": "tiny", "method": {"name": "lora"}}
A_BUDGET = 'a whole number or a mapping such as {"fraction_of_base": 0.01}'


def problem(document: object, adapter: TypeAdapter[object] = JOBS) -> Problem:
    """The only fault of a document."""
    with pytest.raises(ValidationError) as caught:
        adapter.validate_json(json.dumps(document), strict=True)
    faults = caught.value.errors(include_url=False, include_input=False)
    (found,) = validation_problems(faults, document, schema=adapter.json_schema)
    return found


@pytest.mark.parametrize(
    ("member", "pointer", "detail"),
    [
        ({"base_model": "A"}, "/base_model", "base_model must be a name of at most 63 lower-case"),
        ({"training": {"steps": "x"}}, "/training/steps", "steps must be a whole number."),
        ({"training": {"steps": -1}}, "/training/steps", "steps must be greater than or equal to"),
        ({"seeds": [1, "x"]}, "/seeds/1", "seeds[1] must be a whole number."),
        ({"training": 3}, "/training", "training must be a mapping of names to values."),
        ({"budget": "x\u202e"}, "/budget", f'budget must be {A_BUDGET}, not "x\\u202e".'),
        ({"budget": "y" * 99}, "/budget", f'budget must be {A_BUDGET}, not "{"y" * 38}….'),
        ({"budget": 1.5}, "/budget", f"budget must be {A_BUDGET}, not 1.5."),
        ({"resources": {"queue": "GPU"}}, "/resources/queue", "queue must be a name of at most 31"),
        ({"labels": {"a": "x" * 300}}, "/labels/a", "a must be at most 256 characters long."),
        ({"kind": "adopt"}, "/kind", "kind must be one of 'pretrain', 'import', 'adapt'"),
    ],
)
def test_a_fault_is_told_in_words_with_its_place(
    member: dict[str, object], pointer: str, detail: str
) -> None:
    document = ADAPT | {"task": {"name": "copy"}} | member
    with pytest.raises(ValidationError) as caught:
        JOBS.validate_json(json.dumps(document), strict=True)
    found = validation_problems(caught.value.errors(), document)
    told = {one.pointer: one.detail for one in found}
    assert told[pointer].startswith(detail)
    assert not any("Input" in text or "^" in text for text in told.values())


def test_a_name_that_is_not_known_comes_with_those_that_are() -> None:
    found = problem(ADAPT | {"task": {"name": "copy"}, "training": {"stepz": 3}})
    assert (found.pointer, found.detail) == ("/training/stepz", "There is no 'stepz' here.")
    assert found.nearest == ("steps",)
    assert {"steps", "batch_size"} <= set(found.allowed)
    assert "base_model" not in found.allowed
    outer = problem(ADAPT | {"task": {"name": "copy"}, "trainin": {}})
    assert outer.nearest[0] == "training"
    assert "name" not in outer.allowed, "that is a name of other kinds of jobs"
    study = {"name": "x", "base_models": ["tiny"], "tasks": ["copy"], "budgets": [16]}
    inner = problem(study | {"bugdets": [1]}, STUDIES)
    assert inner.nearest == ("budgets",)


def test_an_entry_of_a_list_that_is_no_budget_is_told_with_its_place() -> None:
    study = {"name": "x", "base_models": ["tiny"], "tasks": ["copy"], "methods": ["lora"]}
    found = problem(study | {"budgets": [32, "x"]}, STUDIES)
    assert found.pointer == "/budgets/1"
    assert found.detail == f'budgets[1] must be {A_BUDGET}, not "x".'


def test_what_is_missing_is_called_by_its_name() -> None:
    found = problem(ADAPT)
    assert (found.pointer, found.detail) == ("/task", "task is missing.")
    assert problem({}).detail == "kind is missing."


def test_an_entry_of_a_list_is_told_and_not_the_word_that_could_replace_the_list() -> None:
    found = problem({"kind": "theory", "checks": [{}]})
    assert (found.pointer, found.detail) == ("/checks/0/name", "name is missing.")
