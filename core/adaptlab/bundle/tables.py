"""The tables of a bundle: claim and evidence as rows."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from adaptlab.bundle.contents import ClaimEvidence, StudyClaim, TableEvidence
from adaptlab.comparisons.comparison import ComparisonCell
from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab.comparisons.table_rows import Figure, table_rows
from adaptlab.spreadsheet import harmless
from adaptlab.statistics import Scores

Cell = str | int | float | None
Row = tuple[Cell, ...]
ColumnType = Literal["text", "integer", "number"]


class BundleColumn(NamedTuple):
    """A column of a table."""

    name: str
    type: ColumnType


class BundleTable(NamedTuple):
    """A table: its name, its columns and its rows."""

    name: str
    columns: tuple[BundleColumn, ...]
    rows: Sequence[Row]


_PLACE = "base_model task method"
_COLUMNS: dict[str, tuple[str, str, str]] = {
    # by table: the columns of text, of integers and of numbers
    "scores": (
        f"{_PLACE} standing could_be_best voided metric",
        "budget parameters rank_low rank_high seeds seeds_ok items trials steps",
        "score low high all_seeds_low all_seeds_high level difference difference_low "
        "difference_high metric_mean metric_low metric_high moved",
    ),
    "pairs": (
        "base_model task first second finding reason text",
        "budget seeds items comparisons",
        "difference low high level p_value corrected_p margin seed_part item_part",
    ),
    "outcomes": (f"{_PLACE} outcomes", "budget seed base_replicate items correct", "accuracy"),
    "learning_rates": (
        _PLACE,
        "budget trial seeds chosen diverged eliminated",
        "learning_rate weight_decay initial_scale validation_accuracy validation_metric final_loss",
    ),
    "missing": (f"{_PLACE} state reason seeds text", "budget", ""),
}


def bundle_tables(claim: StudyClaim, evidence: ClaimEvidence) -> Iterator[BundleTable]:
    """Yield the tables in the order of `contents.TABLES`."""
    rows: dict[str, Iterator[dict[str, Cell]]] = {
        "scores": _scores(claim),
        "pairs": _pairs(claim),
        "outcomes": _outcomes(evidence),
        "learning_rates": _learning_rates(claim),
        "missing": _missing(claim),
    }
    for name, members in rows.items():
        columns = _columns(name)
        yield BundleTable(
            name, columns, [tuple(row.get(column.name) for column in columns) for row in members]
        )


def csv_bytes(table: BundleTable) -> bytes:
    """Return the table as CSV; cells that look like formulas are quoted."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([column.name for column in table.columns])
    writer.writerows([harmless(cell) for cell in row] for row in table.rows)
    return text.getvalue().encode()


def _columns(name: str) -> tuple[BundleColumn, ...]:
    texts, integers, numbers = (names.split() for names in _COLUMNS[name])
    return (
        *(BundleColumn(column, "text") for column in texts),
        *(BundleColumn(column, "integer") for column in integers),
        *(BundleColumn(column, "number") for column in numbers),
    )


def _comparison_cells(claim: StudyClaim) -> Iterator[tuple[dict[str, Cell], ComparisonCell]]:
    for table in claim.tables:
        for cell in table.comparison.cells if table.comparison else ():
            place: dict[str, Cell] = {"base_model": table.base_model, "task": table.task}
            yield place | {"budget": cell.budget}, cell


def _scores(claim: StudyClaim) -> Iterator[dict[str, Cell]]:
    for table in claim.tables:
        for row in table_rows(table):
            yield {name: _cell(value) for name, value in row.items()}


def _cell(value: Figure) -> Cell:
    return str(value).lower() if isinstance(value, bool) else value


def _pairs(claim: StudyClaim) -> Iterator[dict[str, Cell]]:
    for place, cell in _comparison_cells(claim):
        for verdict in cell.verdicts:
            pair: dict[str, Cell] = verdict.pair.model_dump()
            members: dict[str, Cell] = verdict.model_dump(exclude={"pair"})
            yield place | pair | members


def _outcomes(evidence: ClaimEvidence) -> Iterator[dict[str, Cell]]:
    for table in evidence.tables:
        for scores in table.scores:
            yield from _seeds(table, scores)


def _seeds(table: TableEvidence, scores: Scores) -> Iterator[dict[str, Cell]]:
    bases: Sequence[int | None] = scores.bases or [None] * len(scores.seeds)
    for seed, base, packed in zip(scores.seeds, bases, scores.outcomes, strict=True):
        padding = -scores.items % 8
        correct = (int.from_bytes(bytes.fromhex(packed)) >> padding).bit_count()
        yield {
            "base_model": table.base_model,
            "task": table.task,
            "method": scores.method,
            "budget": scores.budget,
            "seed": seed,
            "base_replicate": base,
            "items": scores.items,
            "correct": correct,
            "accuracy": correct / scores.items,
            "outcomes": packed,
        }


def _learning_rates(claim: StudyClaim) -> Iterator[dict[str, Cell]]:
    for table in claim.tables:
        for method in table.methods:
            for trial in method.sweep:
                tried: dict[str, Cell] = trial.model_dump()
                yield _place(table, method.method, method.budget) | tried


def _missing(claim: StudyClaim) -> Iterator[dict[str, Cell]]:
    for table in claim.tables:
        for missing in table.missing:
            yield _place(table, missing.method, missing.budget) | {
                "state": missing.state,
                "reason": missing.reason,
                "seeds": " ".join(map(str, missing.seeds)),
                "text": missing.text,
            }


def _place(table: TableComparison, method: str, budget: int | None) -> dict[str, Cell]:
    place: dict[str, Cell] = {"base_model": table.base_model, "task": table.task}
    return place | {"method": method, "budget": budget}
