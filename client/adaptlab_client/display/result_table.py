"""The rows of a query, of all pages, as one table."""

from collections.abc import Iterator
from typing import Any

from adaptlab.values import Value
from adaptlab_answers.queries import Cell, ColumnView
from adaptlab_client.display.frames import frame, pandas

Row = dict[str, Cell]


class ResultTable(Value):
    """Rows with a value for every column; None means not measured."""

    columns: tuple[ColumnView, ...]
    data: tuple[Row, ...]

    def rows(self) -> Iterator[Row]:
        """Iterate over the rows."""
        return iter(self.data)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.data)

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas is optional
        """Return the rows as a data frame with parsed times.

        Raises `ImportError` without pandas.
        """
        table = frame(self.data, [column.name for column in self.columns])
        for column in self.columns:
            if column.type == "time":
                table[column.name] = pandas().to_datetime(
                    table[column.name], utc=True, format="ISO8601"
                )
        return table
