"""A comparison as CSV, with a line per row and per missing score."""

import csv
import io
from collections.abc import Iterator

from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.table_comparison import (
    ComparedMethod,
    MissingScores,
    TableComparison,
    metric_columns,
)
from adaptlab_answers.comparisons import JobComparison

COLUMNS: tuple[str, ...] = (
    "base_model",
    "task",
    "budget",
    "budget_axis",
    "method",
    "state",
    "parameters",
    "context_tokens",
    "stored_bits",
    "demonstrations",
    "score",
    "low",
    "high",
    "level",
    "rank_low",
    "rank_high",
    "could_be_best",
    "metric",
    "metric_mean",
    "metric_low",
    "metric_high",
    "seeds",
    "items",
    "trials",
    "steps",
    "forward_passes",
    "backward_passes",
    "voided",
    "warnings",
    "text",
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of text that a spreadsheet interprets as a formula."""

Line = dict[str, object]


def csv_text(comparison: JobComparison) -> str:
    """Return the comparison as CSV; scores are shares of items from 0 to 1.

    `budget` is that of the cell, so a reference has a line at every budget. An apostrophe precedes
    texts that a spreadsheet would compute.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for table in comparison.tables:
        for line in _lines(table):
            writer.writerow({name: _inert(value) for name, value in line.items()})
    return text.getvalue()


def _lines(table: TableComparison) -> Iterator[Line]:
    place: Line = {"base_model": table.base_model, "task": table.task}
    effort = {method.label: method for method in table.methods}
    metrics = {one.label: one for one in table.metrics}
    if table.comparison is not None:
        warnings = "; ".join(dict.fromkeys(w.kind for w in table.comparison.warnings))
        for cell in table.comparison.cells:
            for row in cell.rows:
                line = _scored(table.comparison, cell, row, effort[row.label])
                line |= metric_columns(metrics.get(row.label))
                yield place | line | {"warnings": warnings}
    for missing in table.missing:
        yield place | _missing(missing)


def _scored(
    comparison: Comparison, cell: ComparisonCell, row: ComparisonRow, effort: ComparedMethod
) -> Line:
    return {
        "budget": cell.budget,
        "budget_axis": comparison.axis,
        "method": row.method,
        "state": "scored",
        "parameters": row.parameters,
        "context_tokens": effort.context_tokens,
        "stored_bits": effort.stored_bits,
        "demonstrations": effort.demonstrations,
        "score": row.score.mean,
        "low": row.score.low,
        "high": row.score.high,
        "level": row.score.level,
        "rank_low": row.rank.low,
        "rank_high": row.rank.high,
        "could_be_best": _flag(row.could_be_best),
        "seeds": row.score.seeds,
        "items": row.items,
        "trials": row.trials,
        "steps": effort.steps,
        "forward_passes": effort.forward_passes,
        "backward_passes": effort.backward_passes,
        "voided": _flag(comparison.voided),
    }


def _missing(missing: MissingScores) -> Line:
    return {
        "budget": missing.budget,
        "method": missing.method,
        "state": missing.state,
        "seeds": len(missing.seeds) or None,
        "warnings": "missing",
        "text": missing.text,
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _inert(value: object) -> object:
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value
