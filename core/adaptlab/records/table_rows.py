"""Rows of tables: CSV, TSV and the sheets of workbooks."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import eq
from typing import NamedTuple

from adaptlab.records.checking import RecordChecker
from adaptlab.records.delimiters import SEPARATOR_LINE
from adaptlab.records.file_reading import PLURALS, SIGN_OF, Delimiter
from adaptlab.records.lines import BlankLines, Line, text_of
from adaptlab.records.problems import NotARecord
from adaptlab.records.record import LONGEST_LINE


class Row(NamedTuple):
    """The values of one row by field, and the line at which it begins."""

    line: int
    values: Mapping[str, object]


# These readers go on after an error, which a generator cannot.


class CellRows:
    """Rows of a table, as values by the names in its first row."""

    delimiter: Delimiter | None = None

    def __init__(self, lines: Iterator[Line], checker: RecordChecker) -> None:
        self._lines, self._blank, self._checker = lines, BlankLines(), checker
        self._number = 0
        self._named = 0
        self._repeats: int | None = None

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        if not self._checker.fields:
            self._begin()
        cells, fields = self._cells(), self._checker.fields
        if len(cells) == len(fields):
            self._compare(cells, fields)
            return Row(self._number, dict(zip(fields, cells, strict=True)))
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
            what = f"the line repeats the names of the fields, {_shown_names(fields)}"
            advice = (
                "Remove it. If these are data and no names, put a line with names, such as "
                "text,label, before the first one."
            )
            return NotARecord(self._repeats, "repeated_names", what, advice)
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
            names = _all_named(self._cells())
            self._check_delimiter(names)
            self._checker.begin(self._number, names)
        except NotARecord as error:
            error.is_final = True
            raise

    def _check_delimiter(self, names: list[str]) -> None:
        own = self.delimiter
        others = [name for name, sign in SIGN_OF.items() if name != own and sign in names[0]]
        if own and len(names) == 1 and others:
            what = f"the only column is {names[0][:80]!r}, read with {PLURALS[own]} between columns"
            advice = f"Give `delimiter` as {' or '.join(others)}, or save the file again."
            if own == "tab":
                advice = "TSV has tabs. Give the form csv, whose delimiter is found."
            raise NotARecord(self._number, "wrong_delimiter", what, advice)


class TsvRows(CellRows):
    """Rows of tab-separated values, which know no quotes."""

    delimiter: Delimiter | None = "tab"
    _advice = "Separate the columns by one tab each, and write no tab into a value."

    def _cells(self) -> list[str]:
        return text_of(self._next_line()).removesuffix("\r").split("\t")


class CsvRows(CellRows):
    """Rows of delimited values, of which some have line feeds in quotes."""

    def __init__(self, lines: Iterator[Line], checker: RecordChecker, delimiter: Delimiter) -> None:
        super().__init__(_without_separator(lines), checker)
        self.delimiter, self._length = delimiter, 0
        self._advice = (
            f"Put values with {PLURALS[delimiter]} in quotes, and end each row with its last value."
        )
        # The limit is of the whole process; it is raised, so no other reader can miss the old one.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        text = iter(self._text, None)
        self._reader = csv.reader(text, delimiter=SIGN_OF[delimiter], strict=True)

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


class SheetRows(CellRows):
    """Rows of a sheet, without the empty cells at their right ends."""

    _advice = "Give every column a name in the first row."

    def __init__(self, rows: Iterable[Sequence[str]], checker: RecordChecker) -> None:
        super().__init__(iter(()), checker)
        self._rows = enumerate(rows, 1)

    def _cells(self) -> list[str]:
        for number, row in self._rows:
            self._number, cells = number, [*row]
            while cells and not cells[-1].strip():
                cells.pop()
            if cells:
                return cells + [""] * (len(self._checker.fields) - len(cells))
        raise StopIteration


def _without_separator(lines: Iterator[Line]) -> Iterator[Line]:
    """Yield the lines without a first one that names the delimiter."""
    for line in lines:
        if line.number > 1:
            yield line
            break
        if not SEPARATOR_LINE.fullmatch(line.content[:16].decode("utf-8", "replace")):
            yield line
    yield from lines


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


def _all_named(names: list[str]) -> list[str]:
    """Return the names, `column 3` for the third one if it has none.

    Tables of pandas begin with an index without a name, and some end every row with a comma. A row
    without any name stays as it is.
    """
    if not any(name.strip() for name in names):
        return names
    return [name if name.strip() else f"column {at}" for at, name in enumerate(names, 1)]


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
