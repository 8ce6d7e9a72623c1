"""The rows of a table as figures, for CSV, data frames and bundles."""

from collections.abc import Iterator

from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.table_comparison import (
    ComparedMethod,
    MethodMetric,
    TableComparison,
    metric_columns,
)

Figure = str | int | float | bool | None


def table_rows(table: TableComparison) -> Iterator[dict[str, Figure]]:
    """Yield one row per method and cell; scores are from 0 to 1.

    `budget` is that of the cell, so a reference has a row at every budget.
    """
    if table.comparison is None:
        return
    effort = {method.label: method for method in table.methods}
    metrics = {one.label: one for one in table.metrics}
    for cell in table.comparison.cells:
        for row in cell.rows:
            yield {
                "base_model": table.base_model,
                "task": table.task,
                **_scored(table.comparison, cell, row),
                **_metric(metrics.get(row.label)),
                **_effort(effort.get(row.label)),
            }


def _scored(comparison: Comparison, cell: ComparisonCell, row: ComparisonRow) -> dict[str, Figure]:
    pair = row.against_best
    return {
        "budget": cell.budget,
        "budget_axis": comparison.axis,
        "method": row.method,
        "standing": row.standing,
        "could_be_best": row.could_be_best,
        "parameters": row.parameters,
        "score": row.score.mean,
        "low": row.score.low,
        "high": row.score.high,
        "all_seeds_low": row.score.all_seeds_low,
        "all_seeds_high": row.score.all_seeds_high,
        "level": row.score.level,
        "difference": None if pair is None else pair.difference,
        "difference_low": None if pair is None else pair.low,
        "difference_high": None if pair is None else pair.high,
        "rank_low": row.rank.low,
        "rank_high": row.rank.high,
        "seeds": row.failing.seeds,
        "seeds_ok": row.failing.ok,
        "items": row.items,
        "trials": row.trials,
        "voided": comparison.voided,
    }


def _metric(metric: MethodMetric | None) -> dict[str, Figure]:
    names = ("metric", "metric_mean", "metric_low", "metric_high")
    return {**dict.fromkeys(names), **metric_columns(metric)}


def _effort(behind: ComparedMethod | None) -> dict[str, Figure]:
    names = (
        "steps",
        "context_tokens",
        "stored_bits",
        "demonstrations",
        "forward_passes",
        "backward_passes",
        "moved",
    )
    return {name: getattr(behind, name, None) for name in names}
