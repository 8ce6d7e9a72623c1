"""File formats for rows: CSV that is safe in spreadsheets, JSONL, Parquet.

Parquet is written by arro3, which takes 7 MB of memory instead of pyarrow's 50. It is written batch
by batch, so that a large export needs no more memory than a small one.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from adaptlab.spreadsheet import harmless
from adaptlab_answers.queries import Cell, ColumnView

if TYPE_CHECKING:
    from arro3.core import Array, RecordBatch, Schema

Batch = Sequence[Sequence[Cell]]
"""Rows with one cell per column."""
TextFormat = Literal["csv", "jsonl"]
FileFormat = Literal["csv", "jsonl", "parquet"]
MEDIA_TYPES: dict[FileFormat, str] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}


def text_lines(
    columns: Sequence[ColumnView], batches: Iterable[Batch], form: TextFormat
) -> Iterator[bytes]:
    """Yield the rows as CSV with a header, or as JSON lines, batch by batch."""
    names = [column.name for column in columns]
    if form == "csv":
        yield _csv([names])
    for batch in batches:
        yield _csv(batch) if form == "csv" else _json_lines(names, batch)


def write_parquet(columns: Sequence[ColumnView], batches: Iterable[Batch], target: Path) -> None:
    """Write the rows to a Parquet file, compressed with Zstandard."""
    from arro3.core import RecordBatchReader  # takes 7 MB, so only if used
    from arro3.io import write_parquet as write

    schema = _schema(columns)
    reader = RecordBatchReader.from_batches(
        schema, (_record_batch(schema, columns, batch) for batch in batches)
    )
    write(reader, target, compression="zstd(3)", max_row_group_size=2**16)


def _csv(rows: Iterable[Sequence[Cell]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([harmless(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def _json_lines(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def _schema(columns: Sequence[ColumnView]) -> "Schema":
    from arro3.core import DataType, Field, Schema

    types = {
        "integer": DataType.int64(),
        "number": DataType.float64(),
        "time": DataType.timestamp("us", tz="UTC"),
    }
    return Schema(
        [Field(column.name, types.get(column.type, DataType.string())) for column in columns]
    )


def _record_batch(schema: "Schema", columns: Sequence[ColumnView], batch: Batch) -> "RecordBatch":
    from arro3.core import RecordBatch

    by_column = list(zip(*batch, strict=True)) if batch else [() for _ in columns]
    arrays = [_array(column, cells) for column, cells in zip(columns, by_column, strict=True)]
    # arro3 does not type the items of an array.array.
    return RecordBatch.from_arrays(arrays, schema=schema)  # pyright: ignore[reportUnknownMemberType]


def _array(column: ColumnView, cells: Sequence[Cell]) -> "Array":
    from arro3.core import Array, DataType

    if column.type == "time":
        moments = [None if cell is None else _microseconds(str(cell)) for cell in cells]
        return Array(moments, type=DataType.int64()).cast(DataType.timestamp("us", tz="UTC"))
    if column.type == "integer":
        return Array(cells, type=DataType.int64())
    if column.type == "number":
        return Array([None if cell is None else float(cell) for cell in cells], DataType.float64())
    texts = [None if cell is None else str(cell) for cell in cells]
    return Array(texts, type=DataType.string())


def _microseconds(moment: str) -> int:
    """Return the exact number of microseconds since 1970."""
    return (datetime.fromisoformat(moment) - _EPOCH) // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
