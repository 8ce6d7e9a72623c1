"""The charts of one table of a comparison: what a page, a notebook and a bundle show of it."""

from collections.abc import Iterator, Mapping, Sequence

from adaptlab.charts.budgets import score_against_budget
from adaptlab.charts.differences import pairwise_differences
from adaptlab.charts.frame import Chart, Theme
from adaptlab.charts.ranks import possible_ranks
from adaptlab.charts.sweeps import SweepPoint, rate_sweeps
from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.table_comparison import ComparedMethod, TableComparison, TriedTrial


def table_charts(
    table: TableComparison, *, methods: Sequence[str] = (), theme: Theme = "light"
) -> Iterator[tuple[str, Chart]]:
    """The charts of a table, each with its name; none while nothing is scored.

    `curves` is the score against the budget; `N-ranks`, `N-differences` and `N-sweeps` are of the
    cell N, counted from 0. `methods` are all of the page, which decides colours and shapes.
    """
    comparison = table.comparison
    if comparison is None:
        return
    methods = methods or compared_methods([table])
    if any(curve.points for curve in comparison.curves):
        yield "curves", _curves(comparison, methods, theme)
    effort = {one.label: one for one in table.methods}
    for number, cell in enumerate(comparison.cells):
        rows = ordered_rows(cell)
        yield f"{number}-ranks", possible_ranks(rows, methods=methods, theme=theme)
        if cell.verdicts:
            forest = pairwise_differences(cell, margin=comparison.margin, theme=theme)
            yield f"{number}-differences", forest
        sweeps = _sweeps(cell, effort)
        if any(point.accuracy is not None for points in sweeps.values() for point in points):
            yield f"{number}-sweeps", rate_sweeps(sweeps, methods=methods, theme=theme)


def compared_methods(tables: Sequence[TableComparison]) -> tuple[str, ...]:
    """Every method of the tables, in one order: what decides its colour in all charts."""
    return tuple(dict.fromkeys(one.method for table in tables for one in table.methods))


def ordered_rows(cell: ComparisonCell) -> tuple[ComparisonRow, ...]:
    """Those that could be best first, then by possible ranks, then by name; never by score."""
    return tuple(sorted(cell.rows, key=_place))


def _place(row: ComparisonRow) -> tuple[bool, int, int, str]:
    return not row.could_be_best, row.rank.low, row.rank.high, row.method


def _curves(comparison: Comparison, methods: Sequence[str], theme: Theme) -> Chart:
    references = [row for row in comparison.cells[0].rows if row.budget is None]
    return score_against_budget(
        comparison.curves,
        crossings=comparison.crossings,
        references=references,
        methods=methods,
        theme=theme,
    )


def _sweeps(
    cell: ComparisonCell, effort: Mapping[str, ComparedMethod]
) -> dict[str, list[SweepPoint]]:
    """The trials of the cell's rows; a method with one trial has swept nothing."""
    return {
        row.method: [_point(one) for one in effort[row.label].sweep]
        for row in cell.rows
        if row.label in effort and len(effort[row.label].sweep) > 1
    }


def _point(tried: TriedTrial) -> SweepPoint:
    return SweepPoint(
        learning_rate=tried.learning_rate,
        accuracy=tried.validation_accuracy,
        seeds=tried.seeds,
        chosen=tried.chosen,
        diverged=tried.diverged,
        eliminated=tried.eliminated,
    )
