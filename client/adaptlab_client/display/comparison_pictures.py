"""Pictures of a comparison: the charts of the dashboard, from an answer of the server."""

from typing import TYPE_CHECKING, Literal, get_args

from pydantic import ValidationError

from adaptlab_client.display.pictures import Picture
from adaptlab_client.errors import UnexpectedAnswer

if TYPE_CHECKING:
    from adaptlab_client.display.comparison_tables import JobComparison

PlotKind = Literal["budgets", "ranks", "differences", "learning_rates"]
_OF_CELL: dict[str, str] = {
    "ranks": "ranks",
    "differences": "differences",
    "learning_rates": "sweeps",
}

_KINDS: tuple[str, ...] = get_args(PlotKind)


def plot(
    found: "JobComparison",
    kind: PlotKind = "budgets",
    *,
    table: int = 0,
    budget: int | None = None,
    theme: Literal["light", "dark"] = "light",
) -> Picture:
    """One chart of one table; see `JobComparison.plot`."""
    from adaptlab.charts.table_charts import compared_methods, table_charts
    from adaptlab.comparisons.table_comparison import TableComparison

    if kind not in _KINDS:
        raise ValueError(f"There is no chart {kind!r}; there are {', '.join(_KINDS)}.")
    if not 0 <= table < len(found.tables):
        raise ValueError(f"There is no table {table}; there are {len(found.tables)}, from 0.")
    try:
        tables = [TableComparison.model_validate(one.model_dump()) for one in found.tables]
    except ValidationError as error:
        raise UnexpectedAnswer(
            "The server's comparison is not one that this version can draw; install the "
            f"server's version of adaptlab ({error.error_count()} faults)."
        ) from error
    charts = dict(table_charts(tables[table], methods=compared_methods(tables), theme=theme))
    name = "curves" if kind == "budgets" else f"{_cell(found, table, budget)}-{_OF_CELL[kind]}"
    if name not in charts:
        raise ValueError(f"There is nothing to draw as {kind!r} in the table {table} yet.")
    return Picture(charts[name])


def _cell(found: "JobComparison", table: int, budget: int | None) -> int:
    """The place of the cell at a budget, the first one unless it is named."""
    comparison = found.tables[table].comparison
    budgets = [cell.budget for cell in comparison.cells] if comparison else []
    if budget is None:
        return 0
    if budget not in budgets:
        raise ValueError(f"There is no budget {budget} in the table {table}; there are {budgets}.")
    return budgets.index(budget)
