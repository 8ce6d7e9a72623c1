"""The charts of a comparison's table, drawn together from the same scores."""

from fastapi.responses import Response

from adaptlab.charts import Chart, Theme
from adaptlab.charts.table_charts import compared_methods
from adaptlab.charts.table_charts import table_charts as charts_of
from adaptlab_answers.comparisons import ComparisonProgress
from adaptlab_api.pages.rendering.drawing import drawn
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
        return Response(status_code=204)
    return drawn(table_charts(found, table, theme))
