"""Rows of selected fields, and the fields that can be selected."""

from adaptlab.values import Value

Cell = str | int | float | None


class FieldView(Value):
    """A field for filters, columns and sorting.

    A name such as `labels.<name>` stands for a family of fields. A filter on an `indexed`
    field returns its first page fast, independent of the number of jobs.
    """

    name: str
    type: str
    means: str
    indexed: bool
    allowed: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


class FieldList(Value):
    """All fields of a subject."""

    data: tuple[FieldView, ...]


class ColumnView(Value):
    """A column of a result table."""

    name: str
    type: str


class ResultRows(Value):
    """One page of rows; without `next_page_token` it is the last.

    The members of a row are named after their fields, dots included. Times are strings in ISO
    8601, and values that a job has not measured are null.
    """

    columns: tuple[ColumnView, ...]
    data: tuple[dict[str, Cell], ...]
    next_page_token: str | None
