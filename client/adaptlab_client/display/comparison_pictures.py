"""Charts of a comparison, the same as on the dashboard."""

from typing import TYPE_CHECKING, Literal, get_args

from pydantic import ValidationError

from adaptlab_client.display.pictures import Picture
from adaptlab_client.errors import UnexpectedAnswer

if TYPE_CHECKING:
    from adaptlab_client.display.comparison_tables import JobComparison

PlotKind = Literal["budgets", "ranks", "differences", "learning_rates", "retention"]
_OF_CELL: dict[str, str] = {
    "ranks": "ranks",
    "differences": "differences",
    "learning_rates": "sweeps",
    "retention": "retention",
}

_KINDS: tuple[str, ...] = get_args(PlotKind)


def plot(
    comparison: "JobComparison",
    kind: PlotKind = "budgets",
    *,
    table: int = 0,
    budget: int | None = None,
    theme: Literal["light", "dark"] = "light",
) -> Picture:
    """Return one chart of one table; see `JobComparison.plot`."""
    from adaptlab.charts.table_charts import compared_methods, table_charts
    from adaptlab.comparisons.table_comparison import TableComparison

    if kind not in _KINDS:
        raise ValueError(f"There is no chart {kind!r}; there are {', '.join(_KINDS)}.")
    count = len(comparison.tables)
    if not 0 <= table < count:
        raise ValueError(f"There is no table {table}; there are {count}, counted from 0.")
    try:
        tables = [
            TableComparison.model_validate(answer.model_dump()) for answer in comparison.tables
        ]
    except ValidationError as error:
        raise UnexpectedAnswer(
            f"This version cannot draw the server's comparison ({error.error_count()} errors). "
            "Install the server's version of adaptlab."
        ) from error
    charts = dict(table_charts(tables[table], methods=compared_methods(tables), theme=theme))
    name = "curves" if kind == "budgets" else f"{_cell(comparison, table, budget)}-{_OF_CELL[kind]}"
    if name not in charts:
        raise ValueError(f"There is nothing to draw as {kind!r} in table {table} yet.")
    return Picture(charts[name])


def _cell(jobs: "JobComparison", table: int, budget: int | None) -> int:
    """Return the index of the cell at a budget, by default of the first cell."""
    comparison = jobs.tables[table].comparison
    budgets = [cell.budget for cell in comparison.cells] if comparison else []
    if budget is None:
        return 0
    if budget not in budgets:
        raise ValueError(f"There is no budget {budget} in table {table}; there are {budgets}.")
    return budgets.index(budget)
