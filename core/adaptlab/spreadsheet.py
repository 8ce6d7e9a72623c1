"""Cells of CSV files that are safe to open in a spreadsheet."""

from typing import TypeVar

T = TypeVar("T")

# A spreadsheet interprets a cell that begins with one of these as a formula, and runs it. The last
# four are the wide forms of the first four, which some spreadsheets read alike.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def harmless(cell: T) -> T | str:
    """Return the cell, with a quote before a text that could be a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
