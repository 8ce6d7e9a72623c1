"""A comparison as CSV, with a line per row and per missing score."""

import csv
import io
from collections.abc import Iterator, Mapping

from adaptlab.comparisons.table_comparison import MissingScores, TableComparison
from adaptlab.comparisons.table_rows import table_rows
from adaptlab.spreadsheet import harmless
from adaptlab_answers.comparisons import JobComparisonView

COLUMNS: tuple[str, ...] = (
    "base_model",
    "task",
    "budget",
    "budget_axis",
    "method",
    "state",
    "standing",
    "parameters",
    "context_tokens",
    "stored_bits",
    "demonstrations",
    "score",
    "low",
    "high",
    "all_seeds_low",
    "all_seeds_high",
    "level",
    "difference",
    "difference_low",
    "difference_high",
    "rank_low",
    "rank_high",
    "could_be_best",
    "metric",
    "metric_mean",
    "metric_low",
    "metric_high",
    "seeds",
    "seeds_ok",
    "items",
    "trials",
    "steps",
    "forward_passes",
    "backward_passes",
    "moved",
    "voided",
    "warnings",
    "text",
)

Line = Mapping[str, object]


def csv_text(comparison: JobComparisonView) -> str:
    """Return the comparison as CSV; scores are shares of items from 0 to 1.

    An apostrophe precedes texts that a spreadsheet would compute.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for table in comparison.tables:
        for line in _lines(table):
            writer.writerow({name: harmless(_plain(value)) for name, value in line.items()})
    return text.getvalue()


def _lines(table: TableComparison) -> Iterator[Line]:
    warned = () if table.comparison is None else table.comparison.warnings
    warnings = "; ".join(dict.fromkeys(warning.kind for warning in warned))
    for row in table_rows(table):
        yield {**row, "state": "scored", "warnings": warnings}
    for missing in table.missing:
        yield {"base_model": table.base_model, "task": table.task, **_missing(missing)}


def _missing(missing: MissingScores) -> Line:
    return {
        "budget": missing.budget,
        "method": missing.method,
        "state": missing.state,
        "seeds": len(missing.seeds) or None,
        "warnings": "missing",
        "text": missing.text,
    }


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
