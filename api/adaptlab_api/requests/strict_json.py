"""Strict JSON, which RFC 8259, Postgres and every parser accept.

Python's own parser accepts NaN, infinities, numbers that overflow, duplicate keys, lone surrogates
and NUL. Each of these later breaks a response, a column or another parser. Here they are errors,
each with a pointer to its place. pydantic's parser was considered: it finds neither duplicate keys
nor NUL.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, cast

from adaptlab.errors import Problem
from adaptlab_api.answers.problems import INVALID_JSON, INVALID_REQUEST, Refused

DEEPEST = 32
LARGEST_INTEGER = 2**63 - 1
MOST_FAULTS = 20

# Any: the types in a JSON document are known only after its validation.
Json = Any


@dataclass(frozen=True, slots=True)
class _BadNumber:
    text: str
    code: str
    detail: str


class _Repeating(dict[str, Json]):
    """An object with a key that occurs more than once."""

    repeated: tuple[str, ...] = ()


def parse(body: bytes) -> Json:
    """Return the document in `body`; raise `Refused` if it is not strict JSON."""
    document = _decoded(_text(body))
    faults = _faults(document)
    if faults:
        raise Refused(INVALID_REQUEST, f"The body has invalid values: {faults[0].detail}", *faults)
    return document


def _text(body: bytes) -> str:
    if body.startswith(b"\xef\xbb\xbf"):
        raise _unreadable("byte_order_mark", "The body starts with a byte order mark. Remove it.")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"The body is not valid UTF-8 at byte {error.start + 1}."
        raise _unreadable("invalid_encoding", detail) from error


def _decoded(text: str) -> Json:
    try:
        return json.loads(
            text,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=lambda text: _BadNumber(
                text, "not_finite", f"{text} is not valid JSON."
            ),
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        detail = (
            f"The body is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}."
        )
        raise _unreadable("invalid_json", detail) from error
    except RecursionError as error:
        raise _unreadable("too_deep", _TOO_DEEP) from error


def _unreadable(code: str, detail: str) -> Refused:
    return Refused(INVALID_JSON, detail, Problem("", code, detail))


def _integer(text: str) -> int | _BadNumber:
    # The digits are counted first: conversion takes time quadratic in their number.
    value = int(text) if len(text) <= 20 else LARGEST_INTEGER + 1
    if abs(value) > LARGEST_INTEGER:
        detail = f"{text[:24]}… is too large. The largest whole number is {LARGEST_INTEGER}."
        return _BadNumber(text, "integer_too_large", detail)
    return value


def _float(text: str) -> float | _BadNumber:
    value = float(text)
    if not math.isfinite(value):
        return _BadNumber(text, "not_finite", f"{text[:24]} is too large for a finite number.")
    return value


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeating = _Repeating(members)
    seen: set[str] = set()
    repeating.repeated = tuple(key for key, _ in pairs if key in seen or seen.add(key))
    return repeating


def _faults(document: Json) -> tuple[Problem, ...]:
    """Return the errors in the document, in order, at most `MOST_FAULTS`."""
    faults: list[Problem] = []
    waiting: list[tuple[str, Json, int]] = [("", document, 0)]
    while waiting and len(faults) < MOST_FAULTS:
        pointer, here, depth = waiting.pop()
        faults += _faults_of(pointer, here, depth)
        if depth < DEEPEST:
            waiting += reversed(_members(pointer, here, depth + 1))
    return tuple(faults)


def _members(pointer: str, here: Json, depth: int) -> list[tuple[str, Json, int]]:
    if isinstance(here, dict):
        members = cast("dict[str, Json]", here).items()
        return [(f"{pointer}/{_escaped(key)}", value, depth) for key, value in members]
    if isinstance(here, list):
        items = enumerate(cast("list[Json]", here))
        return [(f"{pointer}/{index}", value, depth) for index, value in items]
    return []


def _faults_of(pointer: str, here: Json, depth: int) -> list[Problem]:
    if isinstance(here, _BadNumber):
        return [Problem(pointer, here.code, here.detail)]
    if isinstance(here, str):
        return _text_faults(pointer, here)
    if depth >= DEEPEST and isinstance(here, dict | list):
        return [Problem(pointer, "too_deep", _TOO_DEEP)]
    if not isinstance(here, dict):
        return []
    faults = [
        Problem(
            f"{pointer}/{_escaped(key)}",
            "duplicate_key",
            f"The member {_shown(key)} occurs more than once.",
        )
        for key in (here.repeated if isinstance(here, _Repeating) else ())
    ]
    for key in cast("dict[str, Json]", here):
        faults += _text_faults(pointer, key)
    return faults


def _text_faults(pointer: str, text: str) -> list[Problem]:
    if "\x00" in text:
        return [
            Problem(pointer, "nul_character", "A string contains the character U+0000. Remove it.")
        ]
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return [Problem(pointer, "lone_surrogate", "A string contains half of a surrogate pair.")]
    return []


def _escaped(key: str) -> str:
    # A pointer is sent as JSON, so it must not contain what makes the key invalid.
    return _clean(key).replace("~", "~0").replace("/", "~1")


def _shown(key: str) -> str:
    return repr(_clean(key)[:64])


def _clean(key: str) -> str:
    return key.encode("utf-8", "replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")


_TOO_DEEP = f"The body is nested more than {DEEPEST} levels deep."
