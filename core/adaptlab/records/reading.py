"""Records from files of CSV, TSV, JSON, Parquet and Excel.

Everything that reads a file of records reads it here: `found_reading` says how, and `records_of`
and `read_with_lines` read it so.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.checking import RecordChecker
from adaptlab.records.class_names import named
from adaptlab.records.delimiters import SeveralDelimiters, found_delimiter
from adaptlab.records.encodings import BytesSeen, as_utf8
from adaptlab.records.file_forms import BINARY, FileForm, wrong_form
from adaptlab.records.file_reading import DELIMITERS, ENCODINGS, Encoding, Reading, ReadingOptions
from adaptlab.records.json_lists import begins_with_list
from adaptlab.records.json_rows import JsonRows, ListedRows, ObjectRows
from adaptlab.records.label_cleaning import cleaned
from adaptlab.records.lines import lines_of, without_mark
from adaptlab.records.problems import GroupedProblems, NotARecord, Unit
from adaptlab.records.record import MOST_RECORDS, PlacedRecord, Record
from adaptlab.records.table_rows import CellRows, CsvRows, SheetRows, TsvRows

PIECE_BYTES = 2**20
Source = Callable[[], Iterable[bytes]]
"""Opens the bytes of a file from its beginning, cut anywhere."""


def found_reading(
    source: Source, form: FileForm, options: ReadingOptions, pointer: str = "/upload"
) -> Reading:
    """Return how a file is read, by what was said and by its bytes.

    All bytes of a text are seen: its encoding never depends on where it is cut.

    Raises:
        InvalidSpec: the bytes are of another form, or something that is needed is not sure.
    """
    if form in BINARY:
        _check_binary(options, form)
        return Reading(form=form, class_names=options.class_names)
    if form != "csv" and options.delimiter is not None:
        detail = f"Only CSV has a delimiter, and the form is {form}. Give the form csv with it."
        raise InvalidSpec(Problem("/delimiter", "delimiter_of_no_csv", detail))
    seen = BytesSeen(source())
    if other := wrong_form(seen.sample):
        raise InvalidSpec(Problem(pointer, "wrong_form", other))
    encoding = options.encoding or _found_encoding(seen, form, pointer)
    if encoding == "utf-16":
        encoding = (
            found if (found := seen.encoding()) in ("utf-16-le", "utf-16-be") else "utf-16-le"
        )
    old = seen.has_old_line_ends
    reading = Reading(
        form=form, encoding=encoding, old_line_ends=old, class_names=options.class_names
    )
    if form != "csv":
        return reading
    if options.delimiter is not None:
        return reading.model_copy(update={"delimiter": options.delimiter})
    is_cut = len(seen.sample) < seen.size
    text = b"".join(_sampled(seen.sample, encoding, old=old)).decode("utf-8", "replace")
    try:
        delimiter = found_delimiter(text, is_cut=is_cut)
    except SeveralDelimiters as error:
        detail = f"The delimiter is not sure: every row is cut by {error}. Give `delimiter`."
        problem = Problem(pointer, "several_delimiters", detail, allowed=DELIMITERS)
        raise InvalidSpec(problem) from error
    return reading.model_copy(update={"delimiter": delimiter})


def reading_of_file(
    path: Path, form: FileForm, options: ReadingOptions, pointer: str = "/upload"
) -> Reading:
    """Return how a file on this machine is read; see `found_reading`."""
    reading = found_reading(lambda: pieces_of(path), form, options, pointer)
    if form != "xlsx":
        return reading
    from adaptlab.records.workbooks import sheet_of

    return reading.model_copy(update={"sheet": sheet_of(path, pointer)})


def _sampled(sample: bytes, encoding: Encoding, *, old: bool) -> Iterator[bytes]:
    with suppress(NotARecord):  # reported when the file is read, or cut inside of a character
        yield from as_utf8([sample], encoding, old_line_ends=old)


def _check_binary(options: ReadingOptions, form: FileForm) -> None:
    given = {"/delimiter": options.delimiter, "/encoding": options.encoding}
    for pointer, value in given.items():
        if value is not None:
            detail = f"A file of the form {form} has no {pointer[1:]}. Leave it out."
            raise InvalidSpec(Problem(pointer, "not_of_this_form", detail))


def _found_encoding(seen: BytesSeen, form: FileForm, pointer: str) -> Encoding:
    """Return the encoding, or UTF-8 where reading it reports the wrong place."""
    found = seen.encoding()
    if found == "cp1252" and form == "jsonl":  # JSON is Unicode
        return "utf-8"
    if found is not None:
        return found
    if form == "jsonl" or seen.has_nul or seen.is_damaged_utf8:
        return "utf-8"
    detail = (
        f"The encoding is not sure: the file is not UTF-8, and as Windows-1252 it would read "
        f"{seen.example('cp1252')!r}. Give `encoding`, or save the file as UTF-8."
    )
    raise InvalidSpec(Problem(pointer, "unknown_encoding", detail, allowed=ENCODINGS))


def records_of(path: Path, reading: Reading, pointer: str = "/upload") -> Iterator[PlacedRecord]:
    """Yield the records of a file on this machine, each with its line or row.

    Raises:
        OSError: the file cannot be read.
        InvalidSpec: with grouped problems; see `read_with_lines`.
    """
    if reading.form == "parquet":
        from adaptlab.records.parquet import read_parquet  # 20 MB, for Parquet only

        placed = read_parquet(path, pointer, reading.class_names)
    elif reading.form == "xlsx":
        from adaptlab.records.workbooks import sheet_rows  # 10 MB, for workbooks only

        checker = RecordChecker()
        rows = SheetRows(sheet_rows(path, pointer), checker)
        placed = named(_checked(rows, checker, pointer, "row"), reading.class_names)
    else:
        yield from read_with_lines(pieces_of(path), reading, pointer)
        return
    yield from cleaned(placed, reading.cleaning)


def pieces_of(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces."""
    with path.open("rb") as file:
        yield from iter(lambda: file.read(PIECE_BYTES), b"")


def read_records(
    pieces: Iterable[bytes], reading: Reading | FileForm, pointer: str = "/upload"
) -> Iterator[Record]:
    """Yield records like `read_with_lines`, without their lines."""
    return (placed.record for placed in read_with_lines(pieces, reading, pointer))


def read_with_lines(
    pieces: Iterable[bytes], reading: Reading | FileForm, pointer: str = "/upload"
) -> Iterator[PlacedRecord]:
    """Yield the records of a text file, read piece by piece, with their lines.

    The first line of CSV and TSV has the names of the fields. Values of CSV may be quoted, those of
    TSV may not: a quote is a character there. A line of JSON lines is an object; its numbers, true
    and false become the text with which they are written. A file that begins with `[` is read as
    one list of objects. Blank lines and a byte order mark are ignored.

    Args:
        pieces: the bytes of the file, cut anywhere.
        reading: how they are read; a form alone is UTF-8, with commas between columns.
        pointer: the place that problems name.

    Raises:
        InvalidSpec: with the grouped problems, at the end of the file or where it can no longer be
            read; no record is yielded after the first problem.
    """
    reading = reading if isinstance(reading, Reading) else Reading(form=reading)
    checker = RecordChecker()
    placed = _checked(_rows(pieces, reading, checker), checker, pointer, "line")
    return cleaned(named(placed, reading.class_names), reading.cleaning)


def _checked(
    rows: ObjectRows | CellRows, checker: RecordChecker, pointer: str, unit: Unit
) -> Iterator[PlacedRecord]:
    problems, count = GroupedProblems(pointer, unit), 0
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


def _rows(
    pieces: Iterable[bytes], reading: Reading, checker: RecordChecker
) -> ObjectRows | CellRows:
    """Return the reader of the rows of a text file."""
    old = reading.old_line_ends
    pieces = as_utf8(pieces, reading.encoding or "utf-8", old_line_ends=old)
    if reading.form == "jsonl":
        is_list, pieces = begins_with_list(pieces)
        if is_list:
            return ListedRows(pieces)
    lines = without_mark(lines_of(pieces))
    if reading.form == "jsonl":
        return JsonRows(lines)
    if reading.form == "tsv":
        return TsvRows(lines, checker)
    return CsvRows(lines, checker, reading.delimiter or "comma")
