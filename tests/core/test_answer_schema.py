"""JSON Schemas of answers: what they check, and what is refused."""

import json
import re
import socket
import time
from typing import Any, Never

import numpy as np
import pytest

from adaptlab.plugins.metric import METRICS
from adaptlab.records.answer_schema import BadSchema, answer_schema

PERSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"$ref": "#/$defs/name"},
            "age": {"type": "integer", "minimum": 0},
        },
        "required": ["name"],
        "additionalProperties": False,
        "$defs": {"name": {"type": "string", "pattern": "^[A-Z][a-z]+$"}},
    }
)
JSON = METRICS.get("json")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('{"name": "Bo", "age": 7.0}', (1, 1, 1)),
        ('{"age": 8, "name": "Bo"}', (0, 1, 1)),
        ('{"name": "bo"}', (0, 1, 0)),
        ('{"name": "Bo", "age": 7, "name": "Bo"}', (0, 0, 0)),
        ('{"name": "Bo", "age": NaN}', (0, 0, 0)),
        ("Bo", (0, 0, 0)),
        ("[" * 100_000, (0, 0, 0)),
        ("9" * 5_000, (0, 1, 0)),
        ("1e999", (0, 1, 0)),
    ],
)
def test_an_answer_parses_fits_and_equals(given: str, expected: tuple[int, ...]) -> None:
    metric = JSON.with_schema(PERSON)
    assert metric.of_answer(given, '{"name": "Bo", "age": 7}') == expected


def test_without_a_schema_all_json_fits() -> None:
    assert JSON.of_answer("[1]", "[2]") == (0, 1, 1)
    assert JSON.signature() == "1"
    assert JSON.with_schema(PERSON).signature().startswith("1|jsonschema-rs|")


def test_a_right_answer_must_fit() -> None:
    metric = JSON.with_schema(PERSON)
    assert metric.reads_answer('{"name": "Bo"}')
    assert not metric.reads_answer('{"name": 7}')
    assert "and fit `answer_schema`" in metric.unread("record 3")
    assert JSON.reads_answer('{"name": 7}')


def test_a_caution_counts_what_does_not_fit() -> None:
    metric = JSON.with_schema(PERSON)
    given = ("Bo", '{"name": "bo"}', '{"name": "Bo"}', "[]")
    table = np.array([metric.of_answer(one, '{"name": "Bo"}') for one in given])
    assert metric.value(table) == 1 / 4
    assert metric.caution(table) == (
        "Of 4 answers, 1 are no JSON and 2 are JSON that does not fit the schema. They count as "
        "wrong."
    )
    assert metric.caution(table[2:3]) is None


def doubling(levels: int) -> dict[str, Any]:
    """A schema whose parts double with every level."""
    parts: dict[str, Any] = {
        f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)
    }
    return {"$defs": parts | {f"a{levels}": False}, "$ref": "#/$defs/a0"}


def nested(levels: int) -> dict[str, Any]:
    return {"items": nested(levels - 1)} if levels else {}


BAD: dict[str, tuple[Any, str]] = {
    "no object": ([1], "not an object"),
    "another type": ({"type": "text"}, "anyOf"),
    "another draft": ({"$schema": "http://json-schema.org/draft-07/schema#"}, "Leave it out"),
    "the network": ({"$ref": "http://127.0.0.1:9/x"}, "leads out of it"),
    "a file": ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "leads out of it"),
    "another base": ({"$id": "http://127.0.0.1:9/", "$ref": "#/x"}, "`$id` is not read"),
    "nothing": ({"$ref": "#/$defs/a"}, "points to nothing"),
    "itself": ({"allOf": [{"$ref": "#"}]}, "refers to itself"),
    "a circle": (
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        "refers to itself",
    ),
    "a tree": ({"items": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "refers to itself"),
    "doubling": (doubling(20), "more than 10,000 parts"),
    "unevaluated": ({"unevaluatedProperties": False}, "is not read"),
    "many levels": (nested(70), "more than 64 levels"),
    "look-ahead": ({"pattern": "(?=a)b"}, "linear time"),
    "a back-reference": ({"pattern": r"(a)\1"}, "linear time"),
    "a large pattern": ({"pattern": "(a{1000}){1000}"}, "linear time"),
    "a pattern of names": ({"patternProperties": {"(?!a)": {}}}, "linear time"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_may_take_long_or_leads_out_is_refused(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Never:
        pytest.fail("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    schema, reason = BAD[case]
    begun = time.perf_counter()
    with pytest.raises(BadSchema, match=re.escape(reason)):
        answer_schema(json.dumps(schema))
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize("text", ["{", '{"type": "object", "type": "array"}', '{"minimum": NaN}'])
def test_a_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BadSchema, match="not JSON"):
        answer_schema(text)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(.*)*x$", "^([a-z]+)*[0-9]$"])
def test_a_pattern_that_backtracks_does_not_hang(pattern: str) -> None:
    """With a backtracking engine, each takes 2 to the power of 4,000 steps."""
    schema, begun = answer_schema(json.dumps({"pattern": pattern})), time.perf_counter()
    assert not schema.fits(json.dumps("a" * 4_000 + "!"))
    assert time.perf_counter() - begun < 5


def test_a_schema_as_large_as_allowed_takes_bounded_time() -> None:
    schema, begun = answer_schema(json.dumps(doubling(8))), time.perf_counter()
    assert not schema.fits(json.dumps({"a": [1] * 500}))
    assert time.perf_counter() - begun < 5
