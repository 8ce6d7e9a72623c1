"""Records from files that people have: CSV, TSV and JSON lines."""

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import eq
from typing import Any, Literal, NamedTuple, cast

from adaptlab.records.checking import RecordChecker
from adaptlab.records.json_lists import ObjectsOfList, begins_with_list
from adaptlab.records.lines import BlankLines, Line, lines_of, text_of, without_mark
from adaptlab.records.problems import GroupedProblems, NotARecord
from adaptlab.records.record import LONGEST_LINE, MOST_RECORDS, Record

Form = Literal["csv", "tsv", "jsonl"]


class PlacedRecord(NamedTuple):
    """A record, and the line of its file at which it begins."""

    line: int
    record: Record


def read_records(pieces: Iterable[bytes], form: Form, pointer: str = "/upload") -> Iterator[Record]:
    """Yield the records of a file, read piece by piece.

    The first line of CSV and TSV has the names of the fields. Values of CSV may be quoted, those of
    TSV may not: a quote is a character there. A line of JSON lines is an object; its numbers, true
    and false become the text with which they are written. A file that begins with `[` is read as
    one list of objects. Blank lines and a byte order mark are ignored.

    Args:
        pieces: the bytes of the file, cut anywhere.
        form: the form of the file.
        pointer: the place that problems name.

    Raises:
        InvalidSpec: with the grouped problems, at the end of the file or where it can no longer be
            read; no record is yielded after the first problem.
    """
    return (placed.record for placed in read_with_lines(pieces, form, pointer))


def read_with_lines(
    pieces: Iterable[bytes], form: Form, pointer: str = "/upload"
) -> Iterator[PlacedRecord]:
    """Yield records like `read_records`, each with its line."""
    problems, checker = GroupedProblems(pointer, "line"), RecordChecker()
    rows, count = _rows(pieces, form, checker), 0
    while not problems.are_enough and not (problems and count > MOST_RECORDS):
        try:
            line, values = next(rows)
            record = checker.checked(line, values)
        except StopIteration:
            break
        except NotARecord as error:
            problems.add(error)
            if error.is_final:
                break
            continue
        count += 1
        if not problems:
            yield PlacedRecord(line, record)
    if not count and not problems:
        problems.add(_no_records(checker))
    if (swallowed := rows.wrong_names()) is not None:
        problems.add(swallowed)
    problems.raise_any()


def _no_records(checker: RecordChecker) -> NotARecord:
    what = "only the names of the fields are there" if checker.fields else "the file is empty"
    return NotARecord(1, "no_records", what, "Give a file with at least one record.")


class _Row(NamedTuple):
    line: int
    values: Mapping[str, object]


# The readers below go on after an error, which a generator cannot.


class _Objects(ABC):
    """Objects of JSON, whose numbers, true and false are texts."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=str,
            parse_float=str,
            parse_constant=self._constant,
        )

    def __iter__(self) -> Iterator[_Row]:
        return self

    @abstractmethod
    def __next__(self) -> _Row: ...

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


class _ListedRows(_Objects):
    """Objects of one JSON list."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._list = ObjectsOfList(pieces, self._decoder)
        self._objects = iter(self._list)

    def __next__(self) -> _Row:
        line, values = next(self._objects)
        return _Row(line, cast("Mapping[str, object]", values))

    def _refused(self, code: str, what: str, advice: str) -> NotARecord:
        return self._list.refused(code, what, advice)


class _JsonRows(_Objects):
    """Objects of JSON lines."""

    def __init__(self, lines: Iterator[Line], _checker: RecordChecker) -> None:
        super().__init__()
        self._lines, self._blank, self._number = lines, BlankLines(), 0

    def __next__(self) -> _Row:
        line = next(self._lines)
        while self._blank.skip(line):
            line = next(self._lines)
        self._number = line.number
        values = self._decoded(text_of(line))
        if isinstance(values, dict):
            return _Row(line.number, values)
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


class _TableRows:
    """Rows of a table, as values by the names in its first row."""

    delimiter = ""

    def __init__(self, lines: Iterator[Line], checker: RecordChecker) -> None:
        self._lines, self._blank, self._checker = lines, BlankLines(), checker
        self._number = 0
        self._named = 0
        self._repeats: int | None = None

    def __iter__(self) -> Iterator[_Row]:
        return self

    def __next__(self) -> _Row:
        if not self._checker.fields:
            self._begin()
        cells, fields = self._cells(), self._checker.fields
        if len(cells) == len(fields):
            self._compare(cells, fields)
            return _Row(self._number, dict(zip(fields, cells, strict=True)))
        is_short = len(cells) < len(fields)
        what = f"the number of columns is {len(cells):,} instead of {len(fields):,}"
        if is_short:
            what = f"{what}, without {', '.join(map(repr, fields[len(cells) :]))}"
        code = "missing_field" if is_short else "unknown_field"
        raise NotARecord(self._number, code, what, self._advice)

    def _compare(self, cells: Sequence[str], fields: Sequence[str]) -> None:
        """Remember the first row with the name of a column as its value."""
        if any(map(eq, cells, fields)):
            is_whole = len(fields) > 1 and tuple(cells) == tuple(fields)
            self._repeats = self._number if is_whole and not self._repeats else self._repeats
            self._named = self._named or self._number

    def wrong_names(self) -> NotARecord | None:
        """Return the problem of a first line without names, if any.

        The first line is a record if a later one has the same value in a column, and another of its
        names is a number or has three words.
        """
        fields = self._checker.fields
        if self._repeats:
            what = "the line repeats the names of the fields"
            return NotARecord(self._repeats, "repeated_names", what, "Remove it.")
        if self._named and any(_is_no_name(name) for name in fields):
            what = f"the first line has no names of fields but values: {_shown_names(fields)}"
            advice = "Put a line with the names of the columns before it, such as text and label."
            return NotARecord(1, "no_names", what, advice)
        return None

    _advice = ""

    def _cells(self) -> list[str]:
        """Return the cells of the next row, and set the number of its first line."""
        raise NotImplementedError

    def _next_line(self) -> Line:
        """Return the next line with a row in it."""
        line = next(self._lines)
        while self._blank.skip(line):
            line = next(self._lines)
        self._number = line.number
        return line

    def _begin(self) -> None:
        try:
            names = self._cells()
            self._check_delimiter(names)
            self._checker.begin(self._number, names)
        except NotARecord as error:
            error.is_final = True
            raise

    def _check_delimiter(self, names: list[str]) -> None:
        others = [mark for mark in (",", ";", "\t") if mark != self.delimiter and mark in names[0]]
        if len(names) == 1 and others:
            form, mark = ("CSV", "commas") if self.delimiter == "," else ("TSV", "tabs")
            what = f"the only column is {names[0][:80]!r}"
            advice = f"Separate the columns of {form} by {mark}, or give the file's own form."
            raise NotARecord(self._number, "wrong_delimiter", what, advice)


class _TsvRows(_TableRows):
    """Rows of tab-separated values, which know no quotes."""

    delimiter = "\t"
    _advice = "Separate the columns by one tab each, and write no tab into a value."

    def _cells(self) -> list[str]:
        return text_of(self._next_line()).removesuffix("\r").split("\t")


class _CsvRows(_TableRows):
    """Rows of comma-separated values, of which some have line feeds in quotes."""

    delimiter = ","
    _advice = "Put values with commas in quotes, and end each row with its last value."

    def __init__(self, lines: Iterator[Line], checker: RecordChecker) -> None:
        super().__init__(lines, checker)
        self._length = 0
        # The limit is of the whole process; it is raised, so no other reader can miss the old one.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        self._reader = csv.reader(iter(self._text, None), strict=True)

    def _cells(self) -> list[str]:
        self._length = 0
        try:
            return next(self._reader)
        except csv.Error as error:
            raise NotARecord(self._number, "not_csv", *_explained(str(error))) from error

    def _text(self) -> str | None:
        """Return the next line for the reader; None at the end."""
        try:
            line = next(self._lines) if self._length else self._next_line()
        except StopIteration:
            return None
        self._length += len(line.content) + 1
        if self._length > LONGEST_LINE + 1:
            raise NotARecord(
                self._number,
                "line_too_long",
                f"the row that begins here has more than {LONGEST_LINE:,} bytes",
                "Shorten it, or close the quote that was opened in it.",
                is_final=True,
            )
        return f"{text_of(line)}\n"


def _explained(message: str) -> tuple[str, str]:
    """Return the error and the advice for a message of Python's reader."""
    if "unexpected end" in message:
        return "a quote is opened here and never closed", "Close it."
    if "expected after" in message:
        return (
            "a closing quote is followed by text",
            'Write a quote in a quoted value as two: "say ""yes""".',
        )
    if "new-line character" in message:
        return "a carriage return is inside of a row", "Put the value in quotes."
    return f"the row is not CSV ({message})", "Put values with commas or quotes in quotes."


def _is_no_name(name: str) -> bool:
    """Return True if a name looks like a value: a number, or three words."""
    try:
        float(name)
    except ValueError:
        return len(name.split()) >= 3
    return True


def _shown_names(names: Sequence[str]) -> str:
    listed = ", ".join(repr(name[:40]) for name in names[:4])
    return f"{listed} …" if len(names) > 4 else listed


def _rows(pieces: Iterable[bytes], form: Form, checker: RecordChecker) -> "_Objects | _TableRows":
    """Return the reader of the rows of a file."""
    if form == "jsonl":
        is_list, pieces = begins_with_list(pieces)
        if is_list:
            return _ListedRows(pieces)
    return _ROWS[form](without_mark(lines_of(pieces)), checker)


_ROWS: Mapping[Form, Callable[[Iterator[Line], RecordChecker], "_JsonRows | _TableRows"]] = {
    "csv": _CsvRows,
    "tsv": _TsvRows,
    "jsonl": _JsonRows,
}
