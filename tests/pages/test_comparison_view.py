"""Titles of everything that a comparison can contain.

A kind without one would end its page in an error.
"""

from typing import get_args

from adaptlab.comparisons.comparison_warnings import WarningKind
from adaptlab.comparisons.table_comparison import TableWarningKind
from adaptlab.comparisons.verdict import Finding
from adaptlab_api.pages.comparisons.tables import FINDING_TITLES, WARNING_TITLES


def test_every_kind_of_warning_has_a_title():
    of_tables = [kind for part in get_args(TableWarningKind) for kind in get_args(part) or [part]]
    assert "sweep_at_edge" in of_tables
    assert set(WARNING_TITLES) == {*get_args(WarningKind), *of_tables}


def test_every_finding_has_a_title():
    assert set(get_args(Finding)) <= {*FINDING_TITLES, "worse"}
