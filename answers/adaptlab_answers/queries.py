"""Rows of chosen fields, and the fields that there are."""

from adaptlab.values import Value

Cell = str | int | float | None


class FieldView(Value):
    """A field that can be asked about; `pattern` marks a family of them, such as `labels.<name>`.

    A filter on one that is `indexed` finds its first page at once, however many jobs there are.
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
    """A column of an answer."""

    name: str
    type: str


class ResultRows(Value):
    """Rows of the chosen fields, and where the list goes on; no token means that this is the end.

    A member of a row has the name of its field, with its dots. Times are texts, and what a job
    has not measured is null.
    """

    columns: tuple[ColumnView, ...]
    data: tuple[dict[str, Cell], ...]
    next_page_token: str | None
