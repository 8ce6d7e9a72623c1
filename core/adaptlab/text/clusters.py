"""Groups of records, such as the questions on one document."""

from collections.abc import Iterator

from adaptlab.errors import Problem
from adaptlab.records.buckets import normalised
from adaptlab.records.record import Record
from adaptlab.text.splitting import Split


class Groups:
    """The groups of the records that were read, numbered from 0.

    Args:
        field: the field whose value names the group, None if records are independent.
    """

    def __init__(self, field: str | None) -> None:
        self._field = field
        self._known: dict[str, tuple[int, Split]] = {}
        self._separated: tuple[str, int] | None = None

    def number_of(self, record: Record, split: Split, line: int) -> int | None:
        """Return the number of a record's group, None without groups.

        `line` is the record's place in the dataset, from 1.
        """
        if self._field is None:
            return None
        value = record[self._field]
        number, first = self._known.setdefault(normalised(value), (len(self._known), split))
        if first != split and self._separated is None:
            self._separated = value, line
        return number

    def problems(self) -> Iterator[Problem]:
        """Yield the problem of a group with records in several splits."""
        if self._separated is None:
            return
        value, line = self._separated
        detail = (
            f"Records with {self._field} {value[:80]!r} are in several splits; line {line:,} of "
            "the dataset is the first that is apart from its group. Name splits that keep groups "
            "together, or leave `splits` out."
        )
        yield Problem("/task/cluster", "separates_clusters", detail)
