"""The parser of bodies accepts exactly what a plain check accepts."""

import json
import math
from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.making import a_pretrain_document, an_adapt_document

from adaptlab_api.answers.problems import Refused
from adaptlab_api.requests.strict_json import DEEPEST, LARGEST_INTEGER, Json, parse

PIECES = (
    *("", "a", "é", "\U0001f600", "NaN", "Infinity", "1e999", "{[", "]}", ":", ","),
    *(r"\n", r"\"", r"\\", r"\/", r"\u0041", r"\u00e9", r"\ud83d\ude00"),
    *(r"\u0000", r"\ud800", r"\uDFFF", r"\ude00\ud83d", r"\\u0000", r"\\\u0000", r"\q", r"\u00"),
    *("\x00", "\n", "\x1f", "\x7f", "\ufeff", "9" * 19, "e123"),
)
NUMBERS = (
    *("0", "-0", "7", "-7", "1.5", "-0.0", "1e5", "1E-5", "1e99", "1e400", "-1E+400", "1e-400"),
    *("9" * 18 + "e99", "9" * 310 + ".5", "1e0400", "0." + "1" * 30, "9" * 5000),
    *(str(LARGEST_INTEGER), str(LARGEST_INTEGER + 1), str(-LARGEST_INTEGER - 1), "9" * 18),
    *("NaN", "Infinity", "-Infinity", "01", "+1", "1.", ".5", "1e", "\u0661", "\uff11"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=3).map(lambda parts: f'"{"".join(parts)}"')
KEYS = st.sampled_from(('"a"', '"b"', '"~/"')) | TEXTS
SCALARS = st.sampled_from(("null", "true", "false", *NUMBERS)) | TEXTS
SPACES = st.sampled_from(("", " ", "\n\t", "\x00", "\xa0", ","))


def _listed(items: list[str]) -> str:
    return f"[{','.join(items)}]"


def _object(members: list[tuple[str, str]]) -> str:
    return f"{{{','.join(f'{key}: {value}' for key, value in members)}}}"


DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(_listed)
        | st.lists(st.tuples(KEYS, inner), max_size=3).map(_object)
        | st.tuples(st.integers(DEEPEST - 2, DEEPEST + 1), inner).map(
            lambda nested: "[" * nested[0] + nested[1] + "]" * nested[0]
        )
    ),
    max_leaves=6,
)
BODIES = st.tuples(SPACES, DOCUMENTS, SPACES).map(lambda parts: "".join(parts).encode())
BYTES = st.sampled_from((b"", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xc0\x80", b"\\"))


def cut(body: bytes, at: int, put: bytes) -> bytes:
    at %= len(body) + 1
    return body[:at] + put + body[at:]


def parsed(body: bytes) -> str | None:
    """Return what the parser reads, or None if it refuses the body.

    As text, because 1, 1.0 and True are equal.
    """
    try:
        return repr(parse(body))
    except Refused:
        return None


def expected(body: bytes) -> str | None:
    """Return what Python's parser reads, or None if it is not strict JSON."""
    try:
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_without_repeats)
        _check(document, depth=0)
    except ValueError:
        return None
    return repr(document)


def _without_repeats(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError
    return dict(pairs)


def _check(value: Json, depth: int) -> None:
    """Raise `ValueError` if a value is not strict JSON."""
    match value:
        case str():
            value.encode("utf-8")  # half of a surrogate pair has no encoding
            valid = "\x00" not in value
        case int():
            valid = abs(value) <= LARGEST_INTEGER
        case float():
            valid = math.isfinite(value)
        case list() | dict():
            valid = depth < DEEPEST
        case _:
            valid = True
    if not valid:
        raise ValueError
    if isinstance(value, dict):
        members = cast("dict[str, Json]", value)
        for part in (*members, *members.values()):
            _check(part, depth + 1)
    if isinstance(value, list):
        for part in cast("list[Json]", value):
            _check(part, depth + 1)


@settings(max_examples=300)
@given(BODIES)
@example(b'{"a": 1, "b": {"c": [], "c": 0}}')
@example(b"[" * DEEPEST + b"{}" + b"]" * DEEPEST)
@example(b'{"a":' * DEEPEST + b"{}" + b"}" * DEEPEST)
def test_a_body_is_read_if_every_value_is_valid(body: bytes) -> None:
    assert parsed(body) == expected(body)


def test_odd_values_are_read_if_they_are_valid() -> None:
    odd = [*NUMBERS, *(f'"{piece}"' for piece in PIECES)]
    for value in [*odd, *(f'{{"a": [{one}], {one}: 0}}' for one in odd)]:
        assert parsed(value.encode()) == expected(value.encode()), value


@given(BODIES, st.integers(0, 200), BYTES)
def test_a_broken_body_is_read_only_if_it_is_still_valid(body: bytes, at: int, put: bytes) -> None:
    broken = cut(body, at, put)
    assert parsed(broken) == expected(broken)


@pytest.mark.parametrize(
    "document",
    [
        an_adapt_document(labels={"paper": 'table "1"\nÅrhus', "rate": "1e-5"}),
        a_pretrain_document(),
        [LARGEST_INTEGER, -1.5e-12, True, None, ["a\\b/c"]],
        {"a": {"a": {"a": [{"a": 1}, {"a": 2}]}}},
    ],
    ids=["adapt", "pretrain", "numbers", "nested"],
)
@pytest.mark.parametrize("escapes", [True, False])
def test_valid_documents_are_read(document: Json, escapes: bool) -> None:
    assert parse(json.dumps(document, ensure_ascii=escapes).encode()) == document
