"""Records from Parquet files.

arro3, which reads them, is loaded with the first file. A server reads Parquet in a process of its
own, and only below its dataset roots; for a file that is uploaded, the client sends JSON lines.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.checking import RecordChecker
from adaptlab.records.parquet_footer import rows_of
from adaptlab.records.parquet_values import as_value, class_names
from adaptlab.records.problems import GroupedProblems, NotARecord
from adaptlab.records.record import MOST_RECORDS, PlacedRecord

if TYPE_CHECKING:
    from arro3.core import Array, RecordBatch

NO_CLASSES: Mapping[str, Sequence[str]] = MappingProxyType({})
_ROWS_AT_ONCE = 1024
_MAGIC = b"PAR1"
_SHORTEST = 12
"""Bytes of the magic words at both ends, and of the length of the footer."""


def read_parquet(
    path: Path, pointer: str = "/upload", classes: Mapping[str, Sequence[str]] = NO_CLASSES
) -> Iterator[PlacedRecord]:
    """Yield the records of a Parquet file with the numbers of their rows.

    Rows are counted from 1 and read in batches. Columns are text, also dictionary-encoded, whole
    numbers, fractions, true and false, or lists of messages; whole numbers of a `ClassLabel` of the
    library `datasets`, or of other `classes`, become the names of these. Dates and times become
    ISO 8601, other nested values JSON, and nulls empty texts.

    Raises:
        OSError: the file cannot be opened.
        InvalidSpec: with the grouped problems, at the end of the file or where it can no longer be
            read; no record is yielded after the first problem.
    """
    problems, checker = GroupedProblems(pointer, "row"), RecordChecker()
    count = 0
    for row, values in enumerate(_rows(path, pointer, checker, classes), 1):
        count = row
        try:
            record = checker.checked(row, values)
        except NotARecord as error:
            problems.add(error)
            if problems.are_enough:
                break
            continue
        if not problems:
            yield PlacedRecord(row, record)
    if not count:
        problems.add(NotARecord(1, "no_records", "the file has no rows", "Give at least one."))
    problems.raise_any()


def _rows(
    path: Path, pointer: str, checker: RecordChecker, classes: Mapping[str, Sequence[str]]
) -> Iterator[Mapping[str, object]]:
    for batch in _batches(path, pointer):
        names = batch.column_names
        if not checker.fields:
            try:
                checker.begin(1, names)
            except NotARecord as error:
                detail = f"Columns of the file: {error.what}. {error.advice}"
                raise InvalidSpec(Problem(pointer, error.code, detail)) from error
        named = {**classes, **class_names(batch.schema.metadata)}
        columns = [
            [as_value(value, named.get(name)) for value in _values(column)]
            for name, column in zip(names, batch.columns, strict=True)
        ]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def _values(column: "Array") -> list[object]:
    # Its type is that of an array of NumPy, but it is a list.
    return cast("list[object]", column.to_pylist())  # pyright: ignore[reportUnknownMemberType]


def _batches(path: Path, pointer: str) -> "Iterator[RecordBatch]":
    if not _has_footer(path):
        detail = "The file is not Parquet, or its end is missing. Write or download it again."
        raise InvalidSpec(Problem(pointer, "not_parquet", detail))
    rows = rows_of(path)
    if rows is not None and rows > MOST_RECORDS:
        detail = f"The file has {rows:,} rows, more than {MOST_RECORDS:,}. Give fewer."
        raise InvalidSpec(Problem(pointer, "wrong_number_of_records", detail))
    from arro3.io import read_parquet as batches_of  # 20 MB, for Parquet only

    try:
        yield from batches_of(path, batch_size=_ROWS_AT_ONCE)
    except OSError:
        raise
    # arro3 raises bare exceptions, and panics, which are none, for damaged files.
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        reason = str(error).rpartition(": ")[2]
        detail = f"The file is damaged ({reason}). Write or download it again."
        raise InvalidSpec(Problem(pointer, "not_parquet", detail)) from error


def _has_footer(path: Path) -> bool:
    """Return True if the file begins and ends as Parquet does."""
    with path.open("rb") as file:
        start = file.read(len(_MAGIC))
        size = file.seek(0, 2)
        if start != _MAGIC or size < _SHORTEST:
            return False
        file.seek(size - 8)
        end = file.read(8)
    return end[4:] == _MAGIC and int.from_bytes(end[:4], "little") <= size - _SHORTEST
