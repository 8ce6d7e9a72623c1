"""A metric over the seeds of groups of results: one line a method, task, budget or base model."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import BigInteger, Double, Integer, Select, func, select, true
from sqlalchemy.orm import Session
from sqlalchemy.sql import column

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.results import LARGEST_LOSS
from adaptlab_services.conditions import condition
from adaptlab_services.job_fields import STATISTICS
from adaptlab_services.job_metrics import METRICS, Measured, Summary, summary
from adaptlab_services.query_fields import Column, Field, Joins
from adaptlab_services.result_queries import (
    LISTINGS,
    Cell,
    ColumnView,
    Question,
    ResultRows,
    cell,
    columns_of,
)

MOST_GROUPS = 1000
MOST_GROUPINGS = 4
GROUPED_BY = ("text", "integer", "any")
DEFAULT_METRIC = "accuracy"
Key = tuple[Cell, ...]

_STATISTICS = tuple(name for name in STATISTICS if name != "n")
_FIGURES = (
    *(ColumnView(name=name, type="integer") for name in ("jobs", "n")),
    *(ColumnView(name=name, type="number") for name in _STATISTICS),
)


def groups(
    session: Session, question: Question, group_by: Sequence[str], metric: str
) -> ResultRows:
    """The groups of all results that match, the largest mean first.

    A seed counts once in a group: what several of its jobs measured is taken together first, items
    by items or as their mean. `jobs` counts those that measured the metric. Raises `InvalidSpec`,
    also for more groups than `MOST_GROUPS`.
    """
    listing = LISTINGS["results"]
    if metric not in METRICS:
        raise _refused("metric", f"There is no metric {metric[:64]!r}.", tuple(METRICS))
    fields = _groupings(group_by)
    joins = Joins()
    holds = condition(question.filter_text, listing.fields, joins)
    of_metric = joins.metric(metric)
    keys = [field.column(joins).label(f"key_{n}") for n, field in enumerate(fields)]
    start = listing.start(select(*keys, of_metric.seeds, of_metric.values, of_metric.items))
    picked = joins.onto(start).where(*listing.always(), of_metric.seeds.is_not(None))
    picked = picked if holds is None else picked.where(holds)
    jobs = _jobs(session, picked, len(fields))
    found = {key: summary(seeds) for key, seeds in _seeds(session, picked, len(fields))}
    in_order = sorted(found.items(), key=lambda group: group[1].mean, reverse=True)
    names = [field.name for field in fields]
    return ResultRows(
        columns=(*columns_of(fields), *_FIGURES),
        data=tuple(_row(names, key, jobs[key], one) for key, one in in_order),
        next_page_token=None,
    )


def _row(names: Sequence[str], key: Key, jobs: int, figures: Summary) -> dict[str, Cell]:
    return (
        dict(zip(names, key, strict=True))
        | {"jobs": jobs, "n": figures.n}
        | {name: getattr(figures, name) for name in _STATISTICS}
    )


def _groupings(names: Sequence[str]) -> tuple[Field, ...]:
    if len(names) > MOST_GROUPINGS or len(set(names)) < len(names):
        raise _refused("group_by", f"Group by at most {MOST_GROUPINGS} fields, each once.")
    fields = tuple(LISTINGS["results"].fields.named(name, "group_by") for name in names)
    for field in fields:
        if field.kind not in GROUPED_BY or field.name.startswith("metrics."):
            detail = f"{field.name} is of type {field.kind}; group by a text or a whole number."
            raise _refused("group_by", detail)
    return fields


def _jobs(session: Session, picked: Select[Any], width: int) -> dict[Key, int]:
    inner = picked.subquery("picked")
    keys = _keys(inner.c, width)
    query = select(*keys, func.count()).group_by(*keys).limit(MOST_GROUPS + 1)
    found = {_key(row[:width]): int(row[width]) for row in session.execute(query)}
    if len(found) > MOST_GROUPS:
        detail = f"There are more than {MOST_GROUPS} groups; narrow the filter or group by less."
        raise _refused("group_by", detail)
    return found


def _seeds(
    session: Session, picked: Select[Any], width: int
) -> Iterator[tuple[Key, list[Measured]]]:
    """What every seed of every group measured, over its jobs."""
    inner = picked.subquery("picked")
    keys = _keys(inner.c, width)
    each = (
        func.unnest(inner.c.seeds, inner.c["values"], inner.c["items"])
        .table_valued(
            column("seed", BigInteger), column("value", Double), column("of_items", Integer)
        )
        .render_derived("each")
    )
    shares = func.sum(each.c.value * each.c.of_items) / func.sum(each.c.of_items)
    value = func.coalesce(shares, func.avg(each.c.value))
    query = (
        select(*keys, each.c.seed, value, func.sum(each.c.of_items))
        .select_from(inner.join(each, true()))
        # Such as earlier versions believed: their sum would be no number.
        .where(func.abs(each.c.value) <= LARGEST_LOSS)
        .group_by(*keys, each.c.seed)
        .order_by(each.c.seed)
    )
    groups: dict[Key, list[Measured]] = defaultdict(list)
    for row in session.execute(query):
        seed, value, items = row[width:]
        groups[_key(row[:width])].append(Measured(seed, value, items))
    yield from groups.items()


def _keys(columns: Any, width: int) -> list[Column]:  # Any: the columns of a subquery
    return [columns[f"key_{place}"] for place in range(width)]


def _key(values: Sequence[object]) -> Key:
    return tuple(cell(value) for value in values)


def _refused(parameter: str, detail: str, allowed: tuple[str, ...] = ()) -> InvalidSpec:
    return InvalidSpec(Problem(f"/query/{parameter}", "invalid_query", detail, allowed))
