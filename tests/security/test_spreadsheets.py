"""Cells that a spreadsheet would run as formulas."""

import pytest

from adaptlab.spreadsheet import harmless

SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@pytest.mark.parametrize("sign", SIGNS)
def test_a_text_that_begins_like_a_formula_is_quoted(sign: str) -> None:
    assert harmless(f"{sign}HYPERLINK(1)") == f"'{sign}HYPERLINK(1)"


@pytest.mark.parametrize("cell", [-1, -0.5, None, True, "lora", "", "a=b"])
def test_other_cells_stay(cell: object) -> None:
    assert harmless(cell) == cell
