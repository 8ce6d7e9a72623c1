"""All pages of the rows of a query in one table."""

from collections.abc import Iterator
from typing import Any

from adaptlab.values import Value
from adaptlab_answers.queries import Cell, ColumnView
from adaptlab_client.display.frames import frame, pandas

Row = dict[str, Cell]


class ResultTable(Value):
    """Rows, each with a value for every column by the field's name; None is not measured."""

    columns: tuple[ColumnView, ...]
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
