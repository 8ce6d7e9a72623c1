"""The charts of a comparison's table, drawn together from the same scores."""

from fastapi.responses import Response

from adaptlab.charts import Chart, Theme
from adaptlab.charts.table_charts import compared_methods
from adaptlab.charts.table_charts import table_charts as charts_of
from adaptlab_answers.comparisons import ComparisonProgress, JobComparison
from adaptlab_api.pages.rendering.drawing import drawn


def table_charts(comparison: JobComparison, number: int, theme: Theme) -> dict[str, Chart] | None:
    """Return the charts of one table by name, or None without a table."""
    if number >= len(comparison.tables):
        return None
    table = comparison.tables[number]
    if table.comparison is None:
        return None
    return dict(charts_of(table, methods=compared_methods(comparison.tables), theme=theme))


def table_answer(found: JobComparison | ComparisonProgress, table: int, theme: Theme) -> Response:
    """Return the charts of one table; no content if there are no scores yet."""
    if isinstance(found, ComparisonProgress):
        return Response(status_code=204)
    return drawn(table_charts(found, table, theme))
