"""Bodies that are read at once come out as with care; and what calls for care is seen."""

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.making import a_pretrain_document, an_adapt_document

from adaptlab_api.answers.problems import Refused
from adaptlab_api.requests import strict_json
from adaptlab_api.requests.strict_json import DEEPEST, LARGEST_INTEGER, Json, parse, parse_with_care

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


def read(by: Callable[[bytes], Json], body: bytes) -> object:
    """What a parser makes of a body; written out, as 1, 1.0 and True are equal."""
    try:
        return repr(by(body))
    except Refused as refused:
        return refused.kind, refused.detail, refused.faults


@settings(max_examples=300)
@given(BODIES)
@example(b'{"a": 1, "b": {"c": [], "c": 0}}')
@example(b"[" * DEEPEST + b"{}" + b"]" * DEEPEST)
@example(b'{"a":' * DEEPEST + b"{}" + b"}" * DEEPEST)
def test_a_body_is_read_as_with_care(body: bytes) -> None:
    assert read(parse, body) == read(parse_with_care, body)


def test_every_odd_value_is_read_as_with_care() -> None:
    odd = [*NUMBERS, *(f'"{piece}"' for piece in PIECES)]
    for value in [*odd, *(f'{{"a": [{one}], {one}: 0}}' for one in odd)]:
        assert read(parse, value.encode()) == read(parse_with_care, value.encode()), value


@given(BODIES, st.integers(0, 200), BYTES)
def test_a_broken_body_is_read_as_with_care(body: bytes, at: int, put: bytes) -> None:
    broken = cut(body, at, put)
    assert read(parse, broken) == read(parse_with_care, broken)


@pytest.mark.parametrize(
    "document",
    [
        an_adapt_document(labels={"paper": 'table "1"\nÅrhus', "rate": "1e-5"}),
        a_pretrain_document(),
        [LARGEST_INTEGER // 10, -1.5e-12, True, None, ["a\\b/c"]],
        {"a": {"a": {"a": [{"a": 1}, {"a": 2}]}}},
    ],
    ids=["adapt", "pretrain", "numbers", "nested"],
)
def test_most_bodies_need_no_care(document: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Json) -> None:
        raise AssertionError("Every value was looked at.")

    monkeypatch.setattr(strict_json, "_faults", fail)
    for escapes in (True, False):
        body = json.dumps(document, ensure_ascii=escapes)
        if "\\u" not in body:
            assert parse(body.encode()) == document
