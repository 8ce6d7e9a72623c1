"""The charts of a comparison's table, all at once: they come from the same scores."""

from collections.abc import Iterator, Mapping, Sequence

from adaptlab.charts import (
    Chart,
    SweepPoint,
    Theme,
    pairwise_differences,
    possible_ranks,
    rate_sweeps,
    score_against_budget,
)
from adaptlab.comparison import Comparison, ComparisonCell
from adaptlab_api.pages.comparison_view import compared_methods, ordered_rows
from adaptlab_services.comparison_views import ComparedMethod, JobComparison, TriedTrial


def table_charts(found: JobComparison, number: int, theme: Theme) -> dict[str, Chart] | None:
    """The charts of one table by the names that its page uses; None where there is no table."""
    if number >= len(found.tables):
        return None
    table = found.tables[number]
    if table.comparison is None:
        return None
    colours = compared_methods(found)
    return dict(_charts(table.comparison, table.methods, colours, theme))


def _charts(
    comparison: Comparison, behind: Sequence[ComparedMethod], methods: Sequence[str], theme: Theme
) -> Iterator[tuple[str, Chart]]:
    if any(curve.points for curve in comparison.curves):
        yield "curves", _curves(comparison, methods, theme)
    effort = {one.label: one for one in behind}
    for number, cell in enumerate(comparison.cells):
        rows = ordered_rows(cell)
        yield f"{number}-ranks", possible_ranks(rows, methods=methods, theme=theme)
        if cell.verdicts:
            forest = pairwise_differences(cell, margin=comparison.margin, theme=theme)
            yield f"{number}-differences", forest
        sweeps = _sweeps(cell, effort)
        if any(point.accuracy is not None for points in sweeps.values() for point in points):
            yield f"{number}-sweeps", rate_sweeps(sweeps, methods=methods, theme=theme)


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
        if len(effort[row.label].sweep) > 1
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
