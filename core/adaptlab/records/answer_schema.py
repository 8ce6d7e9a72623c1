"""JSON Schemas that answers must fit.

A job has the schema of its submitter, so checking an answer takes bounded time with any. Patterns
are matched in linear time, without look-around and back-references; references stay within the
schema and do not recur, and written out it is no larger than `MOST_PARTS`.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Never, cast

from adaptlab.records.answer_forms import NotPlainJson, json_in

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

PACKAGE = "jsonschema-rs"
LONGEST_SCHEMA = 4096
"""Limit of a schema in characters."""
DRAFT = "https://json-schema.org/draft/2020-12/schema"
MOST_PARTS = 10_000
"""Limit of the values in a schema with every reference written out."""
DEEPEST = 64
LARGEST_PATTERN = 2**18
"""Limit of a compiled pattern in bytes."""

_REFUSED = (
    "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor",
    "$vocabulary", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
"""Keywords that lead out of a schema, or take time that doubles with every level."""


class BadSchema(ValueError):
    """A text that is no schema which answers can be checked by."""


class AnswerSchema:
    """A schema that answers are checked by."""

    def __init__(self, validator: "Draft202012Validator") -> None:
        self._validator = validator

    def fits(self, text: str) -> bool:
        """Return True if a text that `json_in` reads has a value that fits."""
        try:
            return self._validator.is_valid(json.loads(text))
        except (ValueError, RecursionError):
            return False


@lru_cache(maxsize=8)
def answer_schema(text: str) -> AnswerSchema:
    """Return the schema that is written in a text.

    Raises:
        BadSchema: with what to change.
    """
    try:
        json_in(text)
        document: object = json.loads(text)
    except (NotPlainJson, ValueError, RecursionError) as error:
        raise BadSchema(f"It is not JSON ({error}).") from error
    if not isinstance(document, dict):
        raise BadSchema('It is not an object. Write one such as {"type": "object"}.')
    members = cast("dict[str, object]", document)
    _Parts(members).check()
    return AnswerSchema(_compiled(members))


def installed_version() -> str:
    """Return the version of the library that checks answers."""
    return version(PACKAGE)


def _compiled(document: dict[str, object]) -> "Draft202012Validator":
    from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

    limits = RegexOptions(size_limit=LARGEST_PATTERN, dfa_size_limit=LARGEST_PATTERN)
    try:
        return Draft202012Validator(
            document,
            pattern_options=limits, validate_formats=False, retriever=_refuse,
        )  # fmt: skip
    except ValidationError as error:
        advice = ""
        if '"regex"' in error.message:
            advice = (
                " Patterns are matched in linear time: they have no look-around, no "
                "back-references, and no large numbers of repetitions."
            )
        raise BadSchema(f"{error.message}.{advice}") from error


def _refuse(uri: str) -> Never:
    raise ValueError(f"{uri} is not fetched.")


def _member(value: object, name: str) -> object | None:
    members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return members.get(name)


class _Parts:
    """The values of a schema, counted with every reference written out."""

    def __init__(self, document: dict[str, object]) -> None:
        self._document = document
        self._sizes: dict[int, int] = {}
        self._open = set[int]()

    def check(self) -> None:
        """Raise `BadSchema` if checking an answer might take long."""
        if self._document.get("$schema", DRAFT) != DRAFT:
            raise BadSchema(f"Its `$schema` is not {DRAFT}. Leave it out.")
        self._size(self._document, 0)

    def _size(self, value: object, depth: int) -> int:
        if not isinstance(value, dict | list):
            return 1
        key = id(cast("object", value))
        if key in self._open:
            raise BadSchema("It refers to itself. Write the levels of an answer out.")
        if depth > DEEPEST:
            raise BadSchema(f"It has more than {DEEPEST} levels. Write fewer.")
        if key not in self._sizes:
            self._open.add(key)
            parts = self._parts(cast("dict[str, object] | list[object]", value))
            size = 1 + sum(self._size(part, depth + 1) for part in parts)
            self._open.remove(key)
            if size > MOST_PARTS:
                raise BadSchema(
                    f"With its references written out, it has more than {MOST_PARTS:,} parts. "
                    "Write fewer."
                )
            self._sizes[key] = size
        return self._sizes[key]

    def _parts(self, value: dict[str, object] | list[object]) -> Iterator[object]:
        if isinstance(value, list):
            yield from value
            return
        for name, part in value.items():
            if name in _REFUSED:
                raise BadSchema(f"`{name}` is not read. Leave it out.")
            yield self._target(part) if name == "$ref" and isinstance(part, str) else part

    def _target(self, reference: str) -> object:
        """Return what a reference within the schema points to."""
        found: object = self._document
        if reference != "#" and not reference.startswith("#/"):
            raise BadSchema(f"`$ref` {reference!r} leads out of it. Refer to #/$defs/NAME.")
        for name in reference.split("/")[1:]:
            if (found := _member(found, name)) is None:
                raise BadSchema(f"`$ref` {reference!r} points to nothing. Refer to #/$defs/NAME.")
        return found
