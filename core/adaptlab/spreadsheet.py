"""Cells of CSV files, which somebody will open with a spreadsheet."""

from typing import TypeVar

T = TypeVar("T")

# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def harmless(cell: T) -> T | str:
    """The cell; a text that would be taken for a formula gets a quote in front."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
