"""Comparisons with rows, data frames and pictures."""

from collections.abc import Iterator
from typing import Any, Literal

from adaptlab.comparisons.table_rows import Figure, table_rows
from adaptlab_answers import comparisons
from adaptlab_client.display.comparison_pictures import PlotKind, plot
from adaptlab_client.display.frames import frame
from adaptlab_client.display.pictures import Picture


class JobComparison(comparisons.JobComparisonView):
    """A comparison of selected jobs; read `warnings` before the tables."""

    def rows(self) -> Iterator[dict[str, Figure]]:
        """Yield one row per method and cell, with the column names of the CSV."""
        for table in self.tables:
            yield from table_rows(table)

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas is optional
        """Return the rows as a data frame; raises `ImportError` without pandas."""
        return frame(self.rows())

    def plot(
        self,
        kind: PlotKind = "budgets",
        *,
        table: int = 0,
        budget: int | None = None,
        theme: Literal["light", "dark"] = "light",
    ) -> Picture:
        """Return a chart of one table: scores over all budgets, or one cell.

        The kinds `ranks`, `differences` and `learning_rates` show the cell at `budget`, by default
        the first. Raises `ValueError` for an unknown kind, table or budget, or without scores.
        """
        return plot(self, kind, table=table, budget=budget, theme=theme)


class StudyComparison(JobComparison, comparisons.StudyComparisonView):
    """The comparison of a study."""
