"""Rows of Excel's workbooks (.xlsx), without running anything in them.

Formulas have the values that Excel has stored with them, and macros are not read.
"""

import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from adaptlab.errors import InvalidSpec, Problem

MOST_UNPACKED = 2**29
"""Bytes of all parts of a workbook, unpacked."""
MOST_PARTS = 4096
MOST_CELLS = 2**26
"""Cells of the rectangle around the cells of a sheet, which is held in memory."""
_PIECE = 2**20
_OVERLAP = 32
_CELL = re.compile(rb"""\sr\s*=\s*["']([A-Z]{1,3})([0-9]{1,7})["']""")
_SHEETS = "xl/worksheets/"
_OLD = bytes.fromhex("d0cf11e0a1b11ae1")


def sheet_of(path: Path, pointer: str = "/upload") -> str:
    """Return the name of the sheet that is read, the first with cells."""
    return _sheet(path, pointer)[0]


def sheet_rows(path: Path, pointer: str = "/upload") -> Iterator[list[str]]:
    """Yield the cells of the first visible sheet that has any, as texts.

    Raises:
        OSError: the file cannot be read.
        InvalidSpec: the file is no workbook, or is beyond a limit.
    """
    for row in _sheet(path, pointer)[1]:
        yield [_text(cell) for cell in row]


def _sheet(path: Path, pointer: str) -> tuple[str, Iterator[Sequence[object]]]:
    _check(path, pointer)
    from python_calamine import CalamineWorkbook, SheetVisibleEnum  # 10 MB, for workbooks only

    try:
        with path.open("rb") as file:
            book = CalamineWorkbook.from_filelike(file)
            visible = [one.name for one in book.sheets_metadata
                       if one.visible == SheetVisibleEnum.Visible]  # fmt: skip
            sheets = (book.get_sheet_by_name(name) for name in visible)
            sheet = next((one for one in sheets if one.height), None)
            if sheet is None:
                return "", iter(())
            # Rows before the first cell count, so that numbers of rows are those of Excel.
            blank: list[Sequence[object]] = [[]] * (sheet.start or (0, 0))[0]
            return sheet.name, _chained(blank, sheet.iter_rows())
    except OSError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _wrong(
            pointer, "not_xlsx", f"The workbook is damaged ({error}). Save it again."
        ) from error


def _chained(
    blank: list[Sequence[object]], rows: Iterator[Sequence[object]]
) -> Iterator[Sequence[object]]:
    yield from blank
    yield from rows


def _text(cell: object) -> str:
    match cell:
        case bool():
            return "true" if cell else "false"
        case float() if cell.is_integer() and abs(cell) < 2**53:
            return str(int(cell))
        case _:
            # Dates, times and durations by what they can do: core knows no clock.
            written = getattr(cell, "isoformat", None) or getattr(cell, "total_seconds", None)
            return str(written() if callable(written) else cell)


def _check(path: Path, pointer: str) -> None:
    """Raise `InvalidSpec` for what is no workbook, or too large once unpacked.

    Every part is unpacked once, up to the size that the archive announces for it, so that what
    reads the workbook never unpacks more.
    """
    with path.open("rb") as file:
        if file.read(8) == _OLD:
            detail = (
                "The file is an old or encrypted workbook. Save it as .xlsx without a password."
            )
            raise _wrong(pointer, "not_xlsx", detail)
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            if "xl/workbook.xml" not in archive.namelist():
                raise _wrong(pointer, "not_xlsx", "The file is no workbook. Save it as .xlsx.")
            size = sum(part.file_size for part in parts)
            if size > MOST_UNPACKED or len(parts) > MOST_PARTS:
                detail = (
                    f"The workbook has {size:,} bytes in {len(parts):,} parts once unpacked. The "
                    f"limit is {MOST_UNPACKED:,} in {MOST_PARTS:,}. Save the sheet as CSV."
                )
                raise _wrong(pointer, "too_many_bytes", detail)
            for part in parts:
                _check_part(archive, part, pointer)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise _wrong(
            pointer, "not_xlsx", f"The workbook is damaged ({error}). Save it again."
        ) from error


def _check_part(archive: zipfile.ZipFile, part: zipfile.ZipInfo, pointer: str) -> None:
    columns, last, rest = set[bytes](), 0, b""
    with archive.open(part) as content:
        while piece := content.read(_PIECE):
            if not part.filename.startswith(_SHEETS):
                continue
            for column, row in _CELL.findall(rest + piece):
                columns.add(column)
                last = max(last, int(row))
            rest = piece[-_OVERLAP:]
    widest = max(map(_number, columns), default=0)
    if widest * last > MOST_CELLS:
        detail = (
            f"A sheet reaches to column {widest:,} and row {last:,}, more than {MOST_CELLS:,} "
            "cells. Delete what is outside of the table, or save the sheet as CSV."
        )
        raise _wrong(pointer, "too_many_cells", detail)


def _number(column: bytes) -> int:
    """Return the number of a column from its letters."""
    number = 0
    for letter in column:
        number = number * 26 + letter - 64
    return number


def _wrong(pointer: str, code: str, detail: str) -> InvalidSpec:
    return InvalidSpec(Problem(pointer, code, detail))
