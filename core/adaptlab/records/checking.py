"""Checks that values are records, and that records have equal fields."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from pydantic import TypeAdapter, ValidationError

from adaptlab.records.accepted_answers import published
from adaptlab.records.conversations import (
    NotAConversation,
    conversation,
    is_meant_as_conversation,
    written,
)
from adaptlab.records.problems import GroupedProblems, NotARecord
from adaptlab.records.record import LONGEST_FIELD_NAME, MOST_FIELDS, FieldName, Record

_FIELD_NAME: TypeAdapter[str] = TypeAdapter(FieldName)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_BITS = 4096
"""Limit of a whole number; Python refuses to write those of more than 4,300 digits."""


class RecordChecker:
    """Turns values into records with the fields of the first one."""

    def __init__(self) -> None:
        self.fields: tuple[str, ...] = ()
        self._names: frozenset[str] = frozenset()

    def begin(self, place: int, names: Sequence[str]) -> None:
        """Take the names of the fields; raise `NotARecord` if they cannot be used."""
        if not names:
            raise NotARecord(place, "no_fields", "there are no fields", "Give at least one.")
        if len(names) > MOST_FIELDS:
            what = f"there are {len(names):,} fields, more than {MOST_FIELDS}"
            raise NotARecord(place, "too_many_fields", what, "Leave some of them out.")
        for position, name in enumerate(names, 1):
            if name in names[: position - 1]:
                what = f"the field {name!r} occurs twice"
                raise NotARecord(place, "field_twice", what, "Rename or remove one of them.")
            _check_name(place, position, name)
        self.fields = tuple(names)
        self._names = frozenset(names)

    def checked(self, place: int, values: Mapping[str, object]) -> Record:
        """Return the record with these values; raise `NotARecord` if it is none.

        A missing field is empty, unless all are missing.
        """
        if not self.fields:
            self.begin(place, tuple(values))
        if not values or not values.keys() <= self._names:
            raise self._other_fields(place, values)
        return {
            name: value
            if type(value := values.get(name)) is str and value.isascii() and "\0" not in value
            else _text(place, name, value)  # most values are such texts, and need none of its tests
            for name in self.fields
        }

    def _other_fields(self, place: int, values: Mapping[str, object]) -> NotARecord:
        if not values:
            what, advice = "the record has no fields", "Leave it out."
            return NotARecord(place, "missing_field", what, advice)
        extra = [name for name in values if name not in self.fields]
        return NotARecord(
            place,
            "unknown_field",
            f"{_names(extra)} not in the first record",
            f"Name only its fields, {', '.join(map(repr, self.fields))}, or give the first record "
            "all fields; they may be empty.",
        )


def checked_records(
    records: Iterable[Mapping[str, object]], pointer: str = "/records"
) -> Iterator[Record]:
    """Yield the records with these values.

    Raises:
        InvalidSpec: after the last record, with grouped problems of records counted from 1; none
            is yielded after the first problem.
    """
    problems, checker = GroupedProblems(pointer, "record"), RecordChecker()
    for place, values in enumerate(records, 1):
        try:
            record = checker.checked(place, values)
        except NotARecord as error:
            problems.add(error)
            continue
        if not problems:
            yield record
    problems.raise_any()


def _check_name(place: int, position: int, name: str) -> None:
    try:
        _FIELD_NAME.validate_python(name, strict=True)
    except ValidationError as error:
        what = f"field {position} has no name"
        advice = "Name it, or remove its column."
        if name.strip():
            what = f"the name of field {position}, {_shortened(name)!r}, cannot be used"
            advice = (
                f"A name has 1 to {LONGEST_FIELD_NAME} printable characters without braces, and "
                "no space at its ends."
            )
        raise NotARecord(place, "bad_field_name", what, advice) from error


def _text(place: int, field: str, value: object) -> str:
    """Return a value as text.

    Numbers, `true` and `false` are as Python and JSON write them, null is empty, and a conversation
    is canonical. A list of such values is written as a list of texts, an object or another list as
    JSON.
    """
    if is_meant_as_conversation(value):
        return _conversation(place, field, cast("list[object]", value))
    value = published(value)
    match value:
        case None:
            return ""
        case str():
            _check_text(place, field, value)
            return value
        case list() if _is_plain(cast("list[object]", value)):
            members = [_text(place, field, one) for one in cast("list[object]", value)]
            return json.dumps(members, ensure_ascii=False)
        case bool():
            return "true" if value else "false"
        case int() if value.bit_length() <= _MOST_BITS:
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case dict() | list():
            return _nested(place, field, cast("object", value))
        case int() | float():
            what = "a number that is too large or not finite"
        case _:
            what = "neither text nor a number"
    raise _wrong_value(place, field, what)


def _wrong_value(place: int, field: str, what: str) -> NotARecord:
    return NotARecord(
        place,
        "wrong_value",
        f"the value of {field!r} is {what}",
        "Give a text, a number, true, false or null, a list or an object of these, or a list of "
        "messages with role and content.",
    )


def _nested(place: int, field: str, value: object) -> str:
    """Return an object, or a list that holds others, as JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong_value(place, field, "nested too deeply, or holds what JSON cannot") from error
    _check_text(place, field, text)
    return text


def _is_plain(members: Sequence[object]) -> bool:
    return all(isinstance(one, str | bool | int | float) for one in members)


def _conversation(place: int, field: str, value: list[object]) -> str:
    """Return the canonical text of a list of messages."""
    try:
        messages = conversation(value)
    except NotAConversation as error:
        what = f"the value of {field!r} {error.what}"
        raise NotARecord(place, error.code, what, error.advice) from error
    for message in messages:
        _check_text(place, field, message.content)
    return written(messages)


def _check_text(place: int, field: str, value: str) -> None:
    if "\0" in value:
        raise NotARecord(
            place,
            "nul_character",
            f"the value of {field!r} has a NUL character",
            "Remove it: it cannot be stored in a text.",
        )
    if not value.isascii() and _SURROGATE.search(value):
        raise NotARecord(
            place,
            "lone_surrogate",
            f"the value of {field!r} has half of a surrogate pair, such as \\ud83d alone",
            "Write the whole character in UTF-8, or both halves of the pair.",
        )


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(repr(_shortened(name)) for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{listed}{more} {'is' if len(names) == 1 else 'are'}"


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_FIELD_NAME else f"{name[:LONGEST_FIELD_NAME]}…"
