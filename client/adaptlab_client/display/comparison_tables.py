"""Comparisons of the server with what a client makes of them: rows, data frames and pictures."""

from collections.abc import Iterator
from typing import Any, Literal

from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab_answers import comparisons
from adaptlab_client.display.comparison_pictures import PlotKind, plot
from adaptlab_client.display.frames import frame
from adaptlab_client.display.pictures import Picture

Cell = str | int | float | bool | None


class JobComparison(comparisons.JobComparison):
    """Jobs held against each other; read `warnings` before the tables."""

    def rows(self) -> Iterator[dict[str, Cell]]:
        """One row for every method of every cell, with the names of the server's CSV."""
        for table in self.tables:
            if table.comparison is not None:
                steps = {one.label: one.steps for one in table.methods}
                for cell in table.comparison.cells:
                    for row in cell.rows:
                        yield _row(table, table.comparison, cell, row, steps.get(row.label))

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas need not be installed
        """The rows as a data frame; raises `ImportError` where pandas is not installed."""
        return frame(self.rows())

    def plot(
        self,
        kind: PlotKind = "budgets",
        *,
        table: int = 0,
        budget: int | None = None,
        theme: Literal["light", "dark"] = "light",
    ) -> Picture:
        """A chart of one table: `budgets` over all of them, or of the cell at one `budget`.

        `ranks`, `differences` and `learning_rates` are of the first budget unless it is given.
        Raises `ValueError` for what there is not.
        """
        return plot(self, kind, table=table, budget=budget, theme=theme)


class StudyComparison(JobComparison, comparisons.StudyComparison):
    """All tables of a study."""


def _row(
    table: TableComparison,
    comparison: Comparison,
    cell: ComparisonCell,
    row: ComparisonRow,
    steps: int | None,
) -> dict[str, Cell]:
    return {
        "base_model": table.base_model,
        "task": table.task,
        "budget": cell.budget,
        "method": row.method,
        "parameters": row.parameters,
        "score": row.score.mean,
        "low": row.score.low,
        "high": row.score.high,
        "level": row.score.level,
        "rank_low": row.rank.low,
        "rank_high": row.rank.high,
        "could_be_best": row.could_be_best,
        "seeds": row.score.seeds,
        "items": row.items,
        "trials": row.trials,
        "steps": steps,
        "voided": comparison.voided,
    }
