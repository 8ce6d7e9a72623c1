"""A report on the terminal: published and measured tables, and claims."""

import csv
import io
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence

from adaptlab.figures import percent
from adaptlab.reproductions.recipe_report import EffortRow, ReportTable
from adaptlab_answers.recipes import StudyReport
from adaptlab_client.cli.printing.terminal import console, one_line, print_table
from adaptlab_client.reports.recipe_text import beside, interval, mean, met, paper

Cells = list[list[str]]
Layout = Callable[[ReportTable, Sequence[EffortRow]], tuple[list[str], Cells]]
WIDEST_TEXT = 100
GAP = 2
NARROWEST_LABEL = 28
CSV_COLUMNS = (
    *("table", "row", "control", "column", "state", "published_mean", "published_spread"),
    *("measured_mean", "measured_low", "measured_high", "measured_spread", "seeds"),
    *("parameters", "steps", "trials"),
)


def print_report(report: StudyReport) -> None:
    """Print the whole report; tables that are too wide are stacked."""
    say_wrapped(report.title)
    study = f"study {report.study.name}, {report.study.state}"
    say_wrapped(f"{report.recipe}, preset {report.preset}: {study}")
    say_wrapped(report.question)
    say_wrapped(report.summary())
    if report.note:
        say_wrapped(f"About this preset: {report.note}")
    if report.departures:
        changed = ", ".join(report.departures)
        say_wrapped(f"The study departs from the recipe in: {changed}.")
    for table in report.tables:
        _print_scores(report, table)
    _print_claims(report)
    print()
    say_wrapped(f"Effort, warnings and pairs of methods: adaptlab compare {report.study.name}")


def csv_text(report: StudyReport) -> str:
    """Return CSV with one line per cell; scores are shares."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for table in report.tables:
        for row in table.rows:
            writer.writerows(_csv_lines(table, row))
    return text.getvalue()


def say_wrapped(text: str, indent: str = "") -> None:
    """Print a paragraph on stdout, wrapped to a readable width."""
    width = min(shutil.get_terminal_size((WIDEST_TEXT, 0)).columns, WIDEST_TEXT)
    lines = textwrap.wrap(one_line(text), width, initial_indent=indent, subsequent_indent=indent)
    print("\n".join(lines))


def _print_scores(report: StudyReport, table: ReportTable) -> None:
    rows = [row for row in table.rows if not row.is_empty]
    if not rows:
        return
    print()
    say_wrapped(f"{table.title} ({table.source})")
    over = "" if table.published_seeds is None else f" over {table.published_seeds} seeds"
    say_wrapped(
        f"In per cent: the paper's mean ± standard deviation{over}, the measured mean and its "
        f"{percent(report.level, 0)} interval."
    )
    width = console(sys.stdout).width
    for layout in (_side_by_side, _stacked, _one_a_line):
        titles, lines = layout(table, rows)
        if _width(titles, lines) <= width:
            break
    print_table(titles, lines)
    if left_out := len(table.rows) - len(rows):
        print(f"{left_out} more controls are in other presets.")


def _side_by_side(table: ReportTable, rows: Sequence[EffortRow]) -> tuple[list[str], Cells]:
    titles = ["row", "trained", "trials", *table.columns]
    return titles, [[*_row(row), *map(beside, row.cells)] for row in rows]


def _stacked(table: ReportTable, rows: Sequence[EffortRow]) -> tuple[list[str], Cells]:
    """Return three lines per row: published and measured score, interval."""
    lines: Cells = []
    for row in rows:
        label = _row(row)[0]
        if not row.control:
            lines.append([label, "paper", *(paper(cell.published) for cell in row.cells)])
            label = ""
        lines.append([label, "measured", *map(mean, row.cells)])
        if any(cell.measured for cell in row.cells):
            lines.append(["", "interval", *map(interval, row.cells)])
    return ["row", "", *table.columns], lines


def _one_a_line(table: ReportTable, rows: Sequence[EffortRow]) -> tuple[list[str], Cells]:
    lines: Cells = []
    for row in rows:
        for number, cell in enumerate(row.cells):
            label = "" if number else _row(row)[0]
            lines.append([label, cell.column, paper(cell.published), mean(cell), interval(cell)])
    return ["row", "column", "paper", "measured", "interval"], lines


def _row(row: EffortRow) -> list[str]:
    """Return label, trainable parameters and trials of a row."""
    label = f"{row.label} (control)" if row.control else row.label
    parameters = "" if row.parameters is None else f"{row.parameters:,}"
    return [label, parameters, "" if row.trials is None else str(row.trials)]


def _width(titles: Sequence[str], lines: Cells) -> int:
    """Return the table's width with its labels, the widest column, folded."""
    label, *widths = (max(map(len, column)) for column in zip(titles, *lines, strict=True))
    return min(label, NARROWEST_LABEL) + sum(widths) + GAP * len(widths)


def _print_claims(report: StudyReport) -> None:
    print("\nClaims")
    for verdict in report.claims:
        words = report.words_of(verdict).upper()
        say_wrapped(f"{words}: {verdict.claim} ({report.version_of(verdict)})")
        say_wrapped(verdict.text, "  ")
        say_wrapped(f"→ {verdict.evidence}", "  ")
        for control in verdict.controls:
            say_wrapped(f"control, {met(control)}: {control.evidence}", "    ")


def _csv_lines(table: ReportTable, row: EffortRow) -> list[list[object]]:
    return [
        [
            *(table.title, row.label, row.control, cell.column, cell.state),
            *((cell.published.mean, cell.published.spread) if cell.published else (None, None)),
            *((score.mean, score.low, score.high) if (score := cell.measured) else (None,) * 3),
            *(cell.spread, len(cell.seeds), row.parameters, row.steps, row.trials),
        ]
        for cell in row.cells
    ]
