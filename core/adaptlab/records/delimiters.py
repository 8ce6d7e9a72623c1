"""The sign between the columns of a CSV file, found from its first rows."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from adaptlab.records.file_reading import DELIMITERS, NAME_OF, PLURALS, SIGN_OF, Delimiter
from adaptlab.records.record import LONGEST_LINE

SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=([,;|\t])"?\r?')
"""The first line with which a file tells Excel its delimiter."""
_MOST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class _Trial:
    """The rows of a sample as one delimiter cuts them.

    Attributes:
        delimiter: the delimiter.
        width: the columns of the first row.
        rows: the number of rows.
        equal: the number of rows of this width.
        is_whole: False if the quotes do not fit.
    """

    delimiter: Delimiter
    width: int
    rows: int
    equal: int
    is_whole: bool

    @property
    def fits(self) -> bool:
        """True if all rows have the same columns, two or more."""
        return self.is_whole and self.width > 1 and self.equal == self.rows


class SeveralDelimiters(ValueError):
    """A sample that two delimiters cut into equal rows."""


def found_delimiter(sample: str, *, is_cut: bool) -> Delimiter:
    """Return the delimiter of a sample, which begins a file.

    It is the one that gives every row the same number of columns, two or more. If none does, the
    file has rows that no delimiter can read, and the likeliest one is returned.

    Raises:
        SeveralDelimiters: several do.
    """
    if told := SEPARATOR_LINE.fullmatch(sample.partition("\n")[0]):
        return NAME_OF[told[1]]
    lines = sample.split("\n")
    trials = [_tried(lines[:-1] if is_cut else lines, one, is_cut=is_cut) for one in DELIMITERS]
    fitting = [trial for trial in trials if trial.fits]
    if len(fitting) > 1 and fitting[0].rows > 1:
        raise SeveralDelimiters(
            " and ".join(f"{PLURALS[one.delimiter]} into {one.width} columns" for one in fitting)
        )
    wide = fitting or [trial for trial in trials if trial.width > 1]
    return max(wide, key=lambda one: one.equal / one.rows).delimiter if wide else "comma"


def _tried(lines: Iterable[str], delimiter: Delimiter, *, is_cut: bool) -> _Trial:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=SIGN_OF[delimiter], strict=True)
    widths: list[int] = []
    is_whole = True
    try:
        rows = (row for row in reader if any(cell.strip() for cell in row))
        widths.extend(len(row) for row in islice(rows, _MOST_ROWS))
    except csv.Error as error:
        is_whole = is_cut and "unexpected end" in str(error)
    width = widths[0] if widths else 0
    return _Trial(delimiter, width, len(widths), widths.count(width), is_whole)
