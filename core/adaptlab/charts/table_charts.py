"""Charts of one table of a comparison, for pages, notebooks and bundles."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from adaptlab.charts.budgets import score_against_budget
from adaptlab.charts.differences import pairwise_differences
from adaptlab.charts.frame import Chart, Theme
from adaptlab.charts.frontiers import gain_against_retention
from adaptlab.charts.ranks import possible_ranks
from adaptlab.charts.sweeps import SweepPoint, rate_sweeps
from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.row_names import row_title, row_titles
from adaptlab.comparisons.table_comparison import ComparedMethod, TableComparison, TriedTrial
from adaptlab.statistics.curves import BudgetCurve

Row = TypeVar("Row", ComparisonRow, BudgetCurve)


def table_charts(
    table: TableComparison, *, methods: Sequence[str] = (), theme: Theme = "light"
) -> Iterator[tuple[str, Chart]]:
    """Yield the charts of a table with their names, none before it has scores.

    `curves` shows the score against the budget. `N-ranks`, `N-differences`, `N-sweeps` and
    `N-retention` belong to cell N, counted from 0. `methods` are all methods of the page, which
    determines colours and shapes.
    """
    comparison = table.comparison
    if comparison is None:
        return
    methods = methods or compared_methods([table])
    titles = row_titles(methods)
    comparison, methods = _titled(comparison, titles), [*titles.values()]
    if any(curve.points for curve in comparison.curves):
        yield "curves", _curves(comparison, methods, theme)
    effort = {method.label: method for method in table.methods}
    for number, cell in enumerate(comparison.cells):
        rows = ordered_rows(cell)
        yield f"{number}-ranks", possible_ranks(rows, methods=methods, theme=theme)
        if cell.verdicts:
            forest = pairwise_differences(cell, margin=comparison.margin, theme=theme)
            yield f"{number}-differences", forest
        sweeps = _sweeps(cell, effort)
        if any(point.accuracy is not None for points in sweeps.values() for point in points):
            yield f"{number}-sweeps", rate_sweeps(sweeps, methods=methods, theme=theme)
        for found in table.frontiers:
            if found.budget == cell.budget:
                chart = gain_against_retention(found, methods=methods, theme=theme)
                yield f"{number}-retention", chart


def _titled(comparison: Comparison, titles: Mapping[str, str]) -> Comparison:
    """Return a comparison whose methods have their titles, for charts."""

    def named(row: Row) -> Row:
        return row.model_copy(update={"method": titles.get(row.method, row.method)})

    cells = (
        cell.model_copy(update={"rows": tuple(map(named, cell.rows))}) for cell in comparison.cells
    )
    crossings = (
        one.model_copy(
            update={
                "higher_before": titles.get(one.higher_before, one.higher_before),
                "higher_after": titles.get(one.higher_after, one.higher_after),
            }
        )
        for one in comparison.crossings
    )
    curves = tuple(map(named, comparison.curves))
    changes = {"cells": tuple(cells), "curves": curves, "crossings": tuple(crossings)}
    return comparison.model_copy(update=changes)


class _Named(Protocol):
    @property
    def method(self) -> str: ...


class _HasMethods(Protocol):
    @property
    def methods(self) -> Sequence[_Named]: ...


def compared_methods(tables: Sequence[_HasMethods]) -> tuple[str, ...]:
    """Return the methods of all tables, in the order that determines colours."""
    return tuple(dict.fromkeys(row.method for table in tables for row in table.methods))


def ordered_rows(cell: ComparisonCell) -> tuple[ComparisonRow, ...]:
    """Return the rows of a cell, those that may be the best first.

    They are sorted by possible ranks and by name, never by score.
    """
    return tuple(sorted(cell.rows, key=_place))


def _place(row: ComparisonRow) -> tuple[bool, int, int, str]:
    return not row.could_be_best, row.rank.low, row.rank.high, row_title(row.method).casefold()


def _curves(comparison: Comparison, methods: Sequence[str], theme: Theme) -> Chart:
    references = [row for row in comparison.cells[0].rows if row.budget is None]
    return score_against_budget(
        comparison.curves,
        axis=comparison.axis,
        crossings=comparison.crossings,
        references=references,
        methods=methods,
        theme=theme,
    )


def _sweeps(
    cell: ComparisonCell, effort: Mapping[str, ComparedMethod]
) -> dict[str, list[SweepPoint]]:
    """Return the trials of the cell's rows, for methods with several trials."""
    return {
        row.method: [_point(trial) for trial in effort[row.label].sweep]
        for row in cell.rows
        if row.label in effort and len(effort[row.label].sweep) > 1
    }


def _point(trial: TriedTrial) -> SweepPoint:
    return SweepPoint(
        learning_rate=trial.learning_rate,
        accuracy=trial.validation_accuracy,
        seeds=trial.seeds,
        chosen=trial.chosen,
        diverged=trial.diverged,
        eliminated=trial.eliminated,
    )
