"""The charts of a comparison's table, all at once: they come from the same scores."""

from fastapi.responses import Response

from adaptlab.charts import Chart, Theme
from adaptlab.charts.table_charts import compared_methods
from adaptlab.charts.table_charts import table_charts as charts_of
from adaptlab_answers.comparisons import ComparisonProgress, JobComparison
from adaptlab_api.pages.rendering.drawing import drawn


def table_charts(found: JobComparison, number: int, theme: Theme) -> dict[str, Chart] | None:
    """The charts of one table by the names that its page uses; None where there is no table."""
    if number >= len(found.tables):
        return None
    table = found.tables[number]
    if table.comparison is None:
        return None
    return dict(charts_of(table, methods=compared_methods(found.tables), theme=theme))


def table_answer(found: JobComparison | ComparisonProgress, table: int, theme: Theme) -> Response:
    """All charts of one table by name; no content where nothing is scored, or not yet computed."""
    if isinstance(found, ComparisonProgress):
        return Response(status_code=204)
    return drawn(table_charts(found, table, theme))
