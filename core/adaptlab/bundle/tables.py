"""The tables of a bundle: claim and evidence as rows."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from adaptlab.bundle.contents import Claim, Evidence, TableEvidence
from adaptlab.comparisons.comparison import ComparisonCell
from adaptlab.comparisons.table_comparison import (
    ComparedMethod,
    TableComparison,
    metric_columns,
)
from adaptlab.comparisons.verdict import SuccessfulSeeds
from adaptlab.spreadsheet import harmless
from adaptlab.statistics import Scores

Cell = str | int | float | None
Row = tuple[Cell, ...]
ColumnType = Literal["text", "integer", "number"]


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: ColumnType


class BundleTable(NamedTuple):
    """A table: its name, its columns and its rows."""

    name: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]


_PLACE = "base_model task method"
_COLUMNS: dict[str, tuple[str, str, str]] = {
    # by table: the columns of text, of integers and of numbers
    "scores": (
        f"{_PLACE} could_be_best voided metric",
        "budget parameters rank_low rank_high seeds failing_seeds items trials steps",
        "score low high all_seeds_low all_seeds_high level metric_mean metric_low metric_high",
    ),
    "pairs": (
        "base_model task first second finding reason text successful_finding",
        "budget seeds items comparisons more_seeds more_seeds_low more_seeds_high "
        "first_failing second_failing successful_seeds",
        "difference low high seen_low seen_high level p_value sign_flip corrected_p margin "
        "seed_part item_part unseen_evidence undone_by unseen_failure_rate failing_p "
        "successful_difference successful_low successful_high successful_p",
    ),
    "outcomes": (f"{_PLACE} outcomes", "budget seed base_replicate items correct", "accuracy"),
    "learning_rates": (
        _PLACE,
        "budget trial seeds chosen diverged eliminated",
        "learning_rate weight_decay initial_scale validation_accuracy validation_metric final_loss",
    ),
    "missing": (f"{_PLACE} state reason seeds text", "budget", ""),
}


def bundle_tables(claim: Claim, evidence: Evidence) -> Iterator[BundleTable]:
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


def _columns(name: str) -> tuple[Column, ...]:
    texts, integers, numbers = (names.split() for names in _COLUMNS[name])
    return (
        *(Column(column, "text") for column in texts),
        *(Column(column, "integer") for column in integers),
        *(Column(column, "number") for column in numbers),
    )


def _cells(claim: Claim) -> Iterator[tuple[dict[str, Cell], TableComparison, ComparisonCell]]:
    for table in claim.tables:
        for cell in table.comparison.cells if table.comparison else ():
            place: dict[str, Cell] = {"base_model": table.base_model, "task": table.task}
            yield place | {"budget": cell.budget}, table, cell


def _scores(claim: Claim) -> Iterator[dict[str, Cell]]:
    for place, table, cell in _cells(claim):
        effort = {method.label: method for method in table.methods}
        metrics = {one.label: one for one in table.metrics}
        voided = bool(table.comparison and table.comparison.voided)
        for row in cell.rows:
            yield place | {
                "method": row.method,
                "could_be_best": _flag(row.could_be_best),
                "voided": _flag(voided),
                "parameters": row.parameters,
                "rank_low": row.rank.low,
                "rank_high": row.rank.high,
                "seeds": row.score.seeds,
                "failing_seeds": row.failing.failing,
                "items": row.items,
                "trials": row.trials,
                "steps": _steps(effort.get(row.label)),
                "score": row.score.mean,
                "low": row.score.low,
                "high": row.score.high,
                "all_seeds_low": row.score.all_seeds_low,
                "all_seeds_high": row.score.all_seeds_high,
                "level": row.score.level,
                **metric_columns(metrics.get(row.label)),
            }


def _steps(behind: ComparedMethod | None) -> int | None:
    return None if behind is None else behind.steps


def _pairs(claim: Claim) -> Iterator[dict[str, Cell]]:
    for place, _, cell in _cells(claim):
        for verdict in cell.verdicts:
            # Unlike corrected_p, seen_p rests on items alone if seeds hardly vary.
            pair: dict[str, Cell] = verdict.pair.model_dump(exclude={"seen_p"})
            members: dict[str, Cell] = verdict.model_dump(exclude={"pair", "successful"})
            yield place | pair | members | _successful(verdict.successful)


def _successful(part: SuccessfulSeeds | None) -> dict[str, Cell]:
    """Return the part of a verdict about successful seeds."""
    if part is None:
        return {}
    row: dict[str, Cell] = {
        "successful_finding": part.finding,
        "first_failing": part.first_failing.failing,
        "second_failing": part.second_failing.failing,
        "failing_p": part.corrected_failing_p,
        "successful_p": part.corrected_p,
    }
    if part.pair is None:
        return row
    return row | {
        "successful_seeds": part.pair.seeds,
        "successful_difference": part.pair.difference,
        "successful_low": part.pair.seen_low,
        "successful_high": part.pair.seen_high,
    }


def _outcomes(evidence: Evidence) -> Iterator[dict[str, Cell]]:
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


def _learning_rates(claim: Claim) -> Iterator[dict[str, Cell]]:
    for table in claim.tables:
        for method in table.methods:
            for trial in method.sweep:
                tried: dict[str, Cell] = trial.model_dump()
                yield _place(table, method.method, method.budget) | tried


def _missing(claim: Claim) -> Iterator[dict[str, Cell]]:
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


def _flag(value: bool) -> str:
    return "true" if value else "false"
