"""What queries over results answer: rows of chosen fields, and the fields that there are."""

from collections.abc import Iterator
from typing import Any

from adaptlab_client.answers import Answer
from adaptlab_client.frames import frame, pandas

Cell = str | int | float | None
Row = dict[str, Cell]


class Column(Answer):
    """A column of an answer; its type is text, integer, number, time or id."""

    name: str
    type: str


class ResultField(Answer):
    """A field that can be asked about; one with `<…>` in its name stands for many.

    A filter on one that is `indexed` answers at once, however many jobs there are.
    """

    name: str
    type: str
    means: str
    indexed: bool = False
    allowed: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


class ResultFields(Answer):
    """All fields of a subject."""

    data: tuple[ResultField, ...]


class ResultPage(Answer):
    """One page of rows."""

    columns: tuple[Column, ...]
    data: tuple[Row, ...]
    next_page_token: str | None = None


class ResultTable(Answer):
    """Rows, each with a value for every column by the field's name; None is not measured."""

    columns: tuple[Column, ...]
    data: tuple[Row, ...]

    def rows(self) -> Iterator[Row]:
        """The rows one by one."""
        return iter(self.data)

    def __len__(self) -> int:
        """How many rows."""
        return len(self.data)

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas need not be installed
        """The rows as a data frame, times as times; raises `ImportError` without pandas."""
        found = frame(self.data, [column.name for column in self.columns])
        for column in self.columns:
            if column.type == "time":
                found[column.name] = pandas().to_datetime(
                    found[column.name], utc=True, format="ISO8601"
                )
        return found
