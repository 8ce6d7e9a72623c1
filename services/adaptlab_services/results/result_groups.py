"""A metric over groups of results, by method, task, budget or base model."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, case, func, select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.measurements.results import LARGEST_LOSS
from adaptlab_answers.queries import Cell, ColumnView, ResultRows
from adaptlab_services.lifecycle.metric_summaries import METRICS, Measured, Summary, summary
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Column, Field, Joins
from adaptlab_services.querying.job_fields import STATISTICS
from adaptlab_services.results.result_queries import LISTINGS, Question, cell, columns_of

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
    """Return the groups of all matching results, the largest mean first.

    A seed counts once per group: what several jobs measured for it is merged first, by items or as
    a mean. `jobs` counts the jobs that measured the metric.

    Raises:
        InvalidSpec: a parameter is invalid, or there are more than `MOST_GROUPS` groups.
    """
    listing = LISTINGS["results"]
    if metric not in METRICS:
        raise _refused("metric", f"There is no metric {metric[:64]!r}.", tuple(METRICS))
    fields = _groupings(group_by)
    joins = Joins(session)
    holds = condition(question.filter_text, listing.fields, joins)
    of_metric = joins.metric(metric)
    keys = [field.column(joins).label(f"key_{n}") for n, field in enumerate(fields)]
    start = listing.start(select(*keys, of_metric.seeds, of_metric.values, of_metric.items))
    picked = joins.onto(start).where(*listing.always(), of_metric.seeds.is_not(None))
    picked = picked if holds is None else picked.where(holds)
    merged = _merged(session, picked, len(fields))
    in_order = sorted(merged, key=lambda group: group[2].mean, reverse=True)
    names = [field.name for field in fields]
    return ResultRows(
        columns=(*columns_of(fields), *_FIGURES),
        data=tuple(_row(names, key, jobs, figures) for key, jobs, figures in in_order),
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
        detail = (
            f"The query groups by {len(names)} fields. Group by at most {MOST_GROUPINGS} different "
            "fields."
        )
        raise _refused("group_by", detail)
    fields = tuple(LISTINGS["results"].fields.named(name, "group_by") for name in names)
    for field in fields:
        if field.kind not in GROUPED_BY or field.name.startswith("metrics."):
            detail = f"{field.name} has the type {field.kind}. Group by a text or a whole number."
            raise _refused("group_by", detail)
    return fields


def _merged(session: Session, picked: Select[Any], width: int) -> list[tuple[Key, int, Summary]]:
    """Return the groups with their jobs; raises `InvalidSpec` for too many."""
    rows = session.execute(_grouped(picked, width).limit(MOST_GROUPS + 1)).all()
    if len(rows) > MOST_GROUPS:
        detail = (
            f"There are more than {MOST_GROUPS} groups. Narrow the filter, or group by fewer "
            "fields."
        )
        raise _refused("group_by", detail)
    merged: list[tuple[Key, int, Summary]] = []
    for row in rows:
        jobs, *columns = row[width:]
        seeds = [
            Measured(seed, value, items)
            for seed, value, items in sorted(zip(*columns, strict=True))
            if value is not None
        ]
        if seeds:
            merged.append((_key(row[:width]), int(jobs), summary(seeds)))
    return merged


def _grouped(picked: Select[Any], width: int) -> Select[Any]:
    """Return one row per group: key, number of jobs, seeds and measurements.

    Seeds and measurements are lists. The query passes over the jobs once; its select list unnests
    the lists, because a join with `unnest` takes a third longer.
    """
    inner = picked.subquery("picked")
    unnested = select(
        *_keys(inner.c, width),
        inner.c.seeds[1].label("first"),
        func.unnest(inner.c.seeds).label("seed"),
        func.unnest(inner.c["values"]).label("value"),
        func.unnest(inner.c["items"]).label("items"),
    ).subquery("unnested")
    # Earlier versions stored larger values, whose sum would overflow.
    value = case((func.abs(unnested.c.value) <= LARGEST_LOSS, unnested.c.value))
    shares = func.sum(value * unnested.c["items"]) / func.sum(unnested.c["items"])
    keys = _keys(unnested.c, width)
    by_seed = (
        select(
            *keys,
            unnested.c.seed,
            func.count().filter(unnested.c.seed == unnested.c.first).label("jobs"),
            func.coalesce(shares, func.avg(value)).label("value"),
            func.sum(unnested.c["items"]).label("items"),
        )
        .group_by(*keys, unnested.c.seed)
        .subquery("by_seed")
    )
    lists = (func.array_agg(by_seed.c[name]) for name in ("seed", "value", "items"))
    of_group = _keys(by_seed.c, width)
    return select(*of_group, func.sum(by_seed.c.jobs), *lists).group_by(*of_group)


def _keys(columns: Any, width: int) -> list[Column]:  # Any: the columns of a subquery
    return [columns[f"key_{place}"] for place in range(width)]


def _key(values: Sequence[object]) -> Key:
    return tuple(cell(value) for value in values)


def _refused(parameter: str, detail: str, allowed: tuple[str, ...] = ()) -> InvalidSpec:
    return InvalidSpec(Problem(f"/query/{parameter}", "invalid_query", detail, allowed))
