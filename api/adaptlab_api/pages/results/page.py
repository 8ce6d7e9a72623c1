"""Values of the page of results: a table of rows or of groups."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from adaptlab.charts import Chart, GroupMean, Theme, group_means
from adaptlab.errors import InvalidSpec
from adaptlab_answers.queries import Cell, ColumnView, ResultRows
from adaptlab_api.pages.rendering.filter_bar import FilterProblem, fault_of, fields_to_ask
from adaptlab_api.pages.results.query import OPERATORS, ConditionRow, ResultsQuery
from adaptlab_services.lifecycle.metric_summaries import catalogue
from adaptlab_services.querying.job_fields import job_fields
from adaptlab_services.results import result_groups, result_queries
from adaptlab_services.results.result_queries import Question
from adaptlab_services.results.varying_fields import varying_fields

PAGE_SIZE = 50
CONTEXT = ("id", "base_model", "task", "method")
FIGURES = (
    "budget.trainable", "metrics.accuracy.n", "metrics.accuracy.mean", "metrics.accuracy.low",
    "metrics.accuracy.high", "finished_at",
)  # fmt: skip
"""The usual columns; those that differ between the results are between them."""
EMPTY_ROWS = 2
MOST_DRAWN = 40
GROUPINGS = ("", "method", "task", "method,budget.trainable", "task,method", "base_model,method",
             "owner", "project,method")  # fmt: skip


def results_page(
    session: Session, query: ResultsQuery, page_token: str | None = None
) -> dict[str, object]:
    """Return the values of the template; a bad query is part of the page."""
    grouped = bool(query.groups())
    varying = () if grouped else _varying(session, query)
    shown = query.columns or (*CONTEXT, *varying, *FIGURES)
    fault, problem, rows = _asked(session, query, shown, page_token)
    following = None if rows is None else rows.next_page_token
    options = GROUPINGS if query.group_by in GROUPINGS else (*GROUPINGS, query.group_by)
    return {
        "query": query,
        "rows": (*query.rows, *(ConditionRow(),) * EMPTY_ROWS),
        "operators": OPERATORS,
        "fields": fields_to_ask(),
        "groupings": options,
        "metrics": catalogue(),
        "metric": query.metric or result_groups.DEFAULT_METRIC,
        "expression": query.expression(),
        "fault": fault,
        "problem": problem,
        "columns": () if rows is None else rows.columns,
        "data": () if rows is None else rows.data,
        "numbers": () if rows is None else numbers_in(rows),
        "grouped": grouped,
        "usual_columns": replace(query, columns=()).address(),
        "choices": () if grouped else _choices(shown, varying),
        "files": {form: query.file(form, shown) for form in ("csv", "jsonl", "parquet")},
        "sorted": {} if rows is None or grouped else dict(_orders(query, rows.columns)),
        "first": query.address() if page_token else None,
        "following": following and query.address(page_token=following),
        "chart": query.address().replace("/results", "/results/charts/groups", 1),
        "drawn": MOST_DRAWN,
    }


def groups_chart(session: Session, query: ResultsQuery, theme: Theme) -> Chart | None:
    """Return the chart of the groups with the best means, if any.

    Raises `InvalidSpec` for an invalid query.
    """
    if not query.groups():
        return None
    metric = query.metric or result_groups.DEFAULT_METRIC
    question = Question("results", query.expression())
    found = result_groups.groups(session, question, query.groups(), metric)
    means = tuple(_means(query.groups(), found))[:MOST_DRAWN]
    return group_means(means, metric, theme=theme) if means else None


def _asked(
    session: Session, query: ResultsQuery, shown: tuple[str, ...], page_token: str | None
) -> tuple[FilterProblem | None, str | None, ResultRows | None]:
    """Return the error in the filter, another error, and the rows."""
    expression = query.expression()
    if expression and (fault := fault_of(expression)) is not None:
        return fault, None, None
    try:
        if query.groups():
            metric = query.metric or result_groups.DEFAULT_METRIC
            question = Question("results", expression)
            return None, None, result_groups.groups(session, question, query.groups(), metric)
        question = Question("results", expression, query.order_by, shown)
        return None, None, result_queries.page(session, question, PAGE_SIZE, page_token)
    except InvalidSpec as error:
        return None, " ".join(problem.detail for problem in error.problems), None


def _varying(session: Session, query: ResultsQuery) -> tuple[str, ...]:
    """Return the fields in which the matches differ; none if it is invalid."""
    try:
        return varying_fields(session, Question("results", query.expression()))
    except InvalidSpec:
        return ()


def _choices(shown: Sequence[str], varying: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """Return the columns to choose from, those that are shown first."""
    plain = (field.name for field in job_fields().fields)
    names = dict.fromkeys((*shown, *CONTEXT, *varying, *FIGURES, *plain))
    return tuple((name, name in shown) for name in names)


def numbers_in(rows: ResultRows) -> frozenset[str]:
    """Return the names of the columns with numbers."""
    return frozenset(
        column.name
        for column in rows.columns
        if column.type in ("integer", "number")
        or any(isinstance(row[column.name], int | float) for row in rows.data)
    )


def _orders(
    query: ResultsQuery, columns: Sequence[ColumnView]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the columns that sort, with their order now and their address."""
    for column in columns:
        if column.type not in ("integer", "number", "time"):
            continue
        now = {f"-{column.name}": "descending", column.name: "ascending"}.get(
            query.order_by, "none"
        )
        other = column.name if now == "descending" else f"-{column.name}"
        yield column.name, (now, replace(query, order_by=other).address())


def _means(names: Sequence[str], found: ResultRows) -> Iterator[GroupMean]:
    for row in found.data:
        mean = row["mean"]
        if isinstance(mean, int | float):
            name = " · ".join(str(row[one]) for one in names)
            yield GroupMean(name, float(mean), _number(row["low"]), _number(row["high"]))


def _number(value: Cell) -> float | None:
    return float(value) if isinstance(value, int | float) else None
