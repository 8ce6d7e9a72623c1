"""Answers of some form: numbers, JSON, and what is none."""

from decimal import Decimal

import numpy as np
import pytest

from adaptlab.plugins.metric import METRICS
from adaptlab.records.answer_forms import first_without, number_in
from adaptlab.records.gathering import Gatherer

NUMERIC, JSON = METRICS.get("numeric"), METRICS.get("json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Half of 48 is 24.\n#### 24", "24"),
        ("It was 5, then 72.", "72"),
        ("#### 5 of 9", "5"),
        ("$1,234.50", "1234.5"),
        ("-$3", "-3"),
        ("−4 °C", "-4"),
        ("1e3", "1000"),
        ("１２", "12"),
        ("72 %", "72"),
        (".72", "0.72"),
        ("5kg", "5"),
        ("1'000", "1000"),
        ("10-3", "3"),
    ],
)
def test_a_number_is_read(text: str, expected: str) -> None:
    assert number_in(text) == Decimal(expected)


@pytest.mark.parametrize(
    "text", ["none", "", "3,5", "1/2", "12:30", "1.2.3", "5 #### no", "1e9999", "12,34"]
)
def test_what_is_not_sure_is_no_number(text: str) -> None:
    assert number_in(text) is None
    assert first_without(["1", text, text], "number") == 1
    with pytest.raises(ValueError, match="has no number at its end"):
        NUMERIC.of_answer("5", text)


def test_numbers_are_compared_exactly() -> None:
    assert NUMERIC.of_answer("so 1,000.0", "#### 1000") == (1.0, 0.0)
    assert NUMERIC.of_answer("#### 1e3", "#### 1000") == (1.0, 1.0)
    assert NUMERIC.of_answer("72 %", ".72") == (0.0, 0.0)
    assert NUMERIC.of_answer("12345678901234567890", "12345678901234567891") == (0.0, 0.0)
    assert NUMERIC.of_answer("12", "１２") == (1.0, 1.0)


def test_a_right_number_in_another_form_is_said() -> None:
    rows = np.array([NUMERIC.of_answer(given, "#### 4") for given in ("#### 4", "4", "#### 5")])
    assert NUMERIC.value(rows) == pytest.approx(2 / 3)
    caution = NUMERIC.caution(rows)
    assert caution is not None
    assert caution.startswith("1 of 2 right numbers do not follow ####")
    assert NUMERIC.caution(rows[:1]) is None


@pytest.mark.parametrize(
    ("given", "right", "expected"),
    [
        ('{"b": [1, 2.0], "a": null}', '{"a":null,"b":[1.0,2]}', (1, 1)),
        ('{"a": true}', '{"a": 1}', (0, 1)),
        ("[1, 2]", "[2, 1]", (0, 1)),
        ('"1"', "1", (0, 1)),
        ('{"a": 1, "a": 1}', '{"a": 1}', (0, 0)),
        ("[NaN]", "[1]", (0, 0)),
        ("-Infinity", "1", (0, 0)),
        ('{"a": 1} done', '{"a": 1}', (0, 0)),
        ("[" * 100_000, "[]", (0, 0)),
    ],
)
def test_json_is_compared_by_value(given: str, right: str, expected: tuple[int, int]) -> None:
    is_right, is_json, fits = JSON.of_answer(given, right)
    assert ((is_right, is_json), fits) == (expected, is_json), "without a schema, all fits"


def test_answers_that_are_no_json_are_said() -> None:
    rows = np.array([JSON.of_answer(given, "[]") for given in ("[]", "{", "1")])
    assert JSON.caution(rows) == "1 of 3 answers are no JSON, and count as wrong."
    assert not JSON.reads_answer('{"a": 1, "a": 2}')


def test_a_dataset_keeps_which_forms_its_values_miss() -> None:
    gatherer = Gatherer()
    for value in ("5", "東京 1", "no", "x" * 5000):
        gatherer.add({"answer": value})
    (field,) = gatherer.facts("some", gatherer.digest).fields
    assert field.missed_forms is not None
    missed = {one.form: one.first for one in field.missed_forms}
    assert missed == {"json": 2, "latin": 2, "number": 3}
