"""A metric over groups of results, by method, task, budget or base model."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Row, Select, cast, func, select, text
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.runs.events import LARGEST_LOSS
from adaptlab_answers.queries import Cell, ColumnView, ResultRows
from adaptlab_services.lifecycle.metric_summaries import (
    SeedMetric,
    Summary,
    catalogue,
    is_lowest_best,
    summary,
)
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Column, Field, Joins
from adaptlab_services.querying.job_fields import STATISTICS
from adaptlab_services.results.result_queries import LISTINGS, Question, cell, columns_of

MOST_GROUPS = 1000
MOST_GROUPINGS = 4
GROUPED_BY = ("text", "integer", "any")
DEFAULT_METRIC = "accuracy"
POSITIONS = 10
"""Sums by position that are computed at first; jobs of more seeds are rare."""
PARALLEL_WORKERS = 1
"""Processes of Postgres that read beside the connection's own, if the database is large."""
Key = tuple[Cell, ...]

_STATISTICS = tuple(name for name in STATISTICS if name != "n")
_FIGURES = (
    *(ColumnView(name=name, type="integer") for name in ("jobs", "n")),
    *(ColumnView(name=name, type="number") for name in _STATISTICS),
)


def groups(
    session: Session, question: Question, group_by: Sequence[str], metric: str
) -> ResultRows:
    """Return the groups of all matching results, the best mean first.

    A seed counts once per group: what several jobs measured for it is merged first, by items or as
    a mean. `jobs` counts the jobs that measured the metric.

    Raises:
        InvalidSpec: a parameter is invalid, or there are more than `MOST_GROUPS` groups.
    """
    listing = LISTINGS["results"]
    if metric not in catalogue():
        raise _refused("metric", f"There is no metric {metric[:64]!r}.", tuple(catalogue()))
    fields = _groupings(group_by)
    joins = Joins(session)
    holds = condition(question.filter_text, listing.fields, joins)
    of_metric = joins.metric(metric)
    keys = [field.column(joins).label(f"key_{n}") for n, field in enumerate(fields)]
    start = listing.start(select(*keys, of_metric.seeds, of_metric.values, of_metric.items))
    picked = joins.onto(start).where(
        *listing.always(),
        of_metric.seeds.is_not(None),
        # Earlier versions stored larger values, whose sum would overflow.
        of_metric.min >= -LARGEST_LOSS,
        of_metric.max <= LARGEST_LOSS,
    )
    picked = picked if holds is None else picked.where(holds)
    merged = _merged(session, picked, len(fields), metric)
    highest_first = not is_lowest_best(metric)
    in_order = sorted(merged, key=lambda group: group[2].mean, reverse=highest_first)
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


def _merged(
    session: Session, picked: Select[Any], width: int, metric: str
) -> list[tuple[Key, int, Summary]]:
    """Return the groups with their jobs; raises `InvalidSpec` for too many."""
    rows, positions = _read(session, picked, width, POSITIONS)
    if positions > POSITIONS:
        rows, _ = _read(session, picked, width, positions)
    if len(rows) > MOST_GROUPS:
        detail = (
            f"There are more than {MOST_GROUPS} groups. Narrow the filter, or group by fewer "
            "fields."
        )
        raise _refused("group_by", detail)
    merged: list[tuple[Key, int, Summary]] = []
    for row in rows:
        jobs, _, *columns = row[width:]
        seeds = [SeedMetric(*seed) for seed in sorted(zip(*columns, strict=True))]
        merged.append((_key(row[:width]), int(jobs), summary(metric, seeds)))
    return merged


def _read(
    session: Session, picked: Select[Any], width: int, positions: int
) -> tuple[Sequence[Row[*tuple[Any, ...]]], int]:
    """Return the rows of `_grouped`, and the largest number of seeds of a job."""
    # Every result is read, so nothing is read in vain: each core of the database takes its share.
    session.execute(text(f"SET LOCAL max_parallel_workers_per_gather = {PARALLEL_WORKERS}"))
    rows = session.execute(_grouped(picked, width, positions).limit(MOST_GROUPS + 1)).all()
    session.execute(text("SET LOCAL max_parallel_workers_per_gather TO DEFAULT"))
    return rows, max((row[width + 1] for row in rows), default=0)


def _grouped(picked: Select[Any], width: int, positions: int) -> Select[Any]:
    """Return one row per group.

    A row has the key, jobs, most seeds of a job, and lists over seeds. The lists are seeds, values
    and items. Jobs with the same seeds and items are summed first, position by position, because a
    row per seed of every job takes twice as long. Sums are right for jobs of at most `positions`
    seeds.
    """
    inner = picked.subquery("picked")
    sums = array([func.sum(inner.c["values"][n]) for n in range(1, positions + 1)])
    alike = (
        select(
            *_keys(inner.c, width),
            inner.c.seeds,
            inner.c["items"],
            func.count().label("jobs"),
            sums.label("sums"),
        )
        .group_by(*_keys(inner.c, width), inner.c.seeds, inner.c["items"])
        .subquery("alike")
    )
    unnested = select(
        *_keys(alike.c, width),
        alike.c.jobs,
        alike.c.seeds[1].label("first"),
        func.cardinality(alike.c.seeds).label("seeds"),
        func.unnest(alike.c.seeds).label("seed"),
        func.unnest(alike.c.sums).label("sum"),
        func.unnest(alike.c["items"]).label("items"),
    ).subquery("unnested")
    jobs, items = unnested.c.jobs, unnested.c["items"]
    shares = func.sum(unnested.c.sum * items) / func.sum(jobs * items)
    keys = _keys(unnested.c, width)
    by_seed = (
        select(
            *keys,
            unnested.c.seed,
            func.sum(jobs).filter(unnested.c.seed == unnested.c.first).label("jobs"),
            func.max(unnested.c.seeds).label("seeds"),
            func.coalesce(shares, func.sum(unnested.c.sum) / func.sum(jobs)).label("value"),
            cast(func.sum(jobs * items), BigInteger).label("items"),
        )
        .where(unnested.c.seed.is_not(None))
        .group_by(*keys, unnested.c.seed)
        .subquery("by_seed")
    )
    lists = (func.array_agg(by_seed.c[name]) for name in ("seed", "value", "items"))
    of_group = _keys(by_seed.c, width)
    figures = (func.sum(by_seed.c.jobs), func.max(by_seed.c.seeds))
    return select(*of_group, *figures, *lists).group_by(*of_group)


def _keys(columns: Any, width: int) -> list[Column]:  # Any: the columns of a subquery
    return [columns[f"key_{place}"] for place in range(width)]


def _key(values: Sequence[object]) -> Key:
    return tuple(cell(value) for value in values)


def _refused(parameter: str, detail: str, allowed: tuple[str, ...] = ()) -> InvalidSpec:
    return InvalidSpec(Problem(f"/query/{parameter}", "invalid_query", detail, allowed))
