"""Comparisons with rows, data frames and pictures."""

from collections.abc import Iterator
from typing import Any, Literal

from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.table_comparison import (
    ComparedMethod,
    MethodMetric,
    TableComparison,
)
from adaptlab_answers import comparisons
from adaptlab_client.display.comparison_pictures import PlotKind, plot
from adaptlab_client.display.frames import frame
from adaptlab_client.display.pictures import Picture

Cell = str | int | float | bool | None


class JobComparison(comparisons.JobComparison):
    """A comparison of selected jobs; read `warnings` before the tables."""

    def rows(self) -> Iterator[dict[str, Cell]]:
        """Yield one row per method and cell, with the column names of the CSV."""
        for table in self.tables:
            if table.comparison is not None:
                behind = {method.label: method for method in table.methods}
                metrics = {one.label: one for one in table.metrics}
                for cell in table.comparison.cells:
                    for row in cell.rows:
                        scored = _row(table, table.comparison, cell, row, behind.get(row.label))
                        yield scored | _metric(metrics.get(row.label))

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


class StudyComparison(JobComparison, comparisons.StudyComparison):
    """The comparison of a study."""


def _metric(metric: MethodMetric | None) -> dict[str, Cell]:
    return {
        "metric": None if metric is None else metric.metric,
        "metric_mean": None if metric is None else metric.mean,
        "metric_low": None if metric is None else metric.low,
        "metric_high": None if metric is None else metric.high,
    }


def _row(
    table: TableComparison,
    comparison: Comparison,
    cell: ComparisonCell,
    row: ComparisonRow,
    behind: ComparedMethod | None,
) -> dict[str, Cell]:
    return {
        "base_model": table.base_model,
        "task": table.task,
        "budget": cell.budget,
        "budget_axis": comparison.axis,
        "method": row.method,
        "parameters": row.parameters,
        "context_tokens": None if behind is None else behind.context_tokens,
        "stored_bits": None if behind is None else behind.stored_bits,
        "demonstrations": None if behind is None else behind.demonstrations,
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
        "steps": None if behind is None else behind.steps,
        "forward_passes": None if behind is None else behind.forward_passes,
        "backward_passes": None if behind is None else behind.backward_passes,
        "voided": comparison.voided,
    }
