"""Cells of CSV files that are safe to open in a spreadsheet."""

from typing import TypeVar

T = TypeVar("T")

# A spreadsheet interprets a cell that begins with one of these as a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def harmless(cell: T) -> T | str:
    """Return the cell, with a quote before a text that could be a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
