"""The charts of a comparison's table: of its scores, and of learning."""

from fastapi.responses import Response

from adaptlab.charts import Chart, Theme, learning_curves
from adaptlab.charts.table_charts import compared_methods
from adaptlab.charts.table_charts import table_charts as charts_of
from adaptlab.comparisons.row_names import row_titles
from adaptlab_answers.comparisons import ComparisonProgress
from adaptlab_api.pages.rendering.drawing import NOTHING_DRAWN, drawn
from adaptlab_api.requests.dependencies import Units
from adaptlab_services.comparisons.cell_curves import cell_curves
from adaptlab_services.comparisons.stored_comparison import StoredComparison


def table_charts(stored: StoredComparison, number: int, theme: Theme) -> dict[str, Chart] | None:
    """Return the charts of one table by name, or None without a table."""
    if number >= len(stored.contents):
        return None
    (table,) = stored.part(range(number, number + 1)).tables
    if table.comparison is None:
        return None
    return dict(charts_of(table, methods=compared_methods(stored.methods), theme=theme))


def table_answer(
    found: StoredComparison | ComparisonProgress, table: int, theme: Theme
) -> Response:
    """Return the charts of one table; no content if there are no scores yet."""
    if isinstance(found, ComparisonProgress):
        return Response(status_code=NOTHING_DRAWN)
    return drawn(table_charts(found, table, theme))


def curves_answer(
    units: Units,
    found: StoredComparison | ComparisonProgress,
    place: tuple[int, int],
    theme: Theme,
) -> Response:
    """Return the learning curves of a cell; `place` is its table and number."""
    number, cell = place
    if isinstance(found, ComparisonProgress) or number >= len(found.contents):
        return Response(status_code=NOTHING_DRAWN)
    (table,) = found.part(range(number, number + 1)).tables
    if table.comparison is None or cell >= len(table.comparison.cells):
        return Response(status_code=NOTHING_DRAWN)
    with units() as session:
        curves = cell_curves(session, table, table.comparison.cells[cell])
    if not curves:
        return Response(status_code=NOTHING_DRAWN)
    titles = row_titles(compared_methods(found.methods))
    titled = {titles[method]: points for method, points in curves.items()}
    colours = [*titles.values()]
    return drawn(learning_curves(titled, theme=theme, height=220, of_labels=colours))
