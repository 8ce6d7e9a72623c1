"""Rows of JSON: objects of one list, or one on every line."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from adaptlab.records.json_lists import ObjectsOfList
from adaptlab.records.lines import BlankLines, Line, text_of
from adaptlab.records.problems import NotARecord
from adaptlab.records.table_rows import Row

# These readers go on after an error, which a generator cannot.


class ObjectRows(ABC):
    """Objects of JSON, whose numbers, true and false are texts."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=str,
            parse_float=str,
            parse_constant=self._constant,
        )

    def __iter__(self) -> Iterator[Row]:
        return self

    @abstractmethod
    def __next__(self) -> Row: ...

    @abstractmethod
    def _refused(self, code: str, what: str, advice: str) -> NotARecord:
        """Return the problem of the object that is decoded."""

    def wrong_names(self) -> NotARecord | None:
        """Return nothing: every object names its fields."""
        return None

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) == len(pairs):
            return values
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise self._refused(
            "field_twice", f"the field {twice!r} occurs twice", "Rename or remove one of them."
        )

    def _constant(self, word: str) -> None:
        raise self._refused("not_json", f"{word} is not JSON", "Give a finite number or a text.")


class ListedRows(ObjectRows):
    """Objects of one JSON list."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._list = ObjectsOfList(pieces, self._decoder)
        self._objects = iter(self._list)

    def __next__(self) -> Row:
        line, values = next(self._objects)
        return Row(line, cast("Mapping[str, object]", values))

    def _refused(self, code: str, what: str, advice: str) -> NotARecord:
        return self._list.refused(code, what, advice)


class JsonRows(ObjectRows):
    """Objects of JSON lines."""

    def __init__(self, lines: Iterator[Line]) -> None:
        super().__init__()
        self._lines, self._blank, self._number = lines, BlankLines(), 0

    def __next__(self) -> Row:
        line = next(self._lines)
        while self._blank.skip(line):
            line = next(self._lines)
        self._number = line.number
        values = self._decoded(text_of(line))
        if isinstance(values, dict):
            return Row(line.number, values)
        kind = "a list" if isinstance(values, list) else "a single value"
        raise self._refused(
            "not_an_object",
            f"the line is {kind}, not an object",
            "Write one JSON object per line, without a list around them.",
        )

    def _decoded(self, text: str) -> Any:  # Any: what JSON can be
        try:
            return self._decoder.decode(text)
        except json.JSONDecodeError as error:
            what = f"the line is not JSON ({error.msg})"
            column = error.pos + 1
        except RecursionError:
            what, column = "the line is nested too deeply", None
        raise self._refused("not_json", what, "Write one JSON object per line.", column)

    def _refused(self, code: str, what: str, advice: str, column: int | None = None) -> NotARecord:
        return NotARecord(self._number, code, what, advice, column=column)
