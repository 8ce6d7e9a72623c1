"""Bulk reads of all matching rows, batch by batch in short units of work.

Readers can be slow, and a long transaction would hold the database up.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, select, tuple_
from sqlalchemy.orm import Session

from adaptlab_answers.queries import ColumnView
from adaptlab_db.tables import Job, MetricPointRow, Replicate
from adaptlab_services.results.result_queries import (
    LISTINGS,
    Question,
    cell,
    chosen_fields,
    columns_of,
    rows,
)
from adaptlab_services.results.row_formats import Batch

Units = Callable[[], AbstractContextManager[Session]]
ROWS_AT_ONCE = 1000
JOBS_AT_ONCE = 100
POINTS_AT_ONCE = 5000
CURVE_COLUMNS = (
    ColumnView(name="id", type="id"),
    ColumnView(name="task", type="text"),
    ColumnView(name="method", type="text"),
    ColumnView(name="name", type="text"),
    ColumnView(name="replicate", type="integer"),
    ColumnView(name="seed", type="integer"),
    ColumnView(name="step", type="integer"),
    ColumnView(name="value", type="number"),
)


def all_rows(units: Units, question: Question) -> tuple[tuple[ColumnView, ...], Iterator[Batch]]:
    """Return the columns and an iterator over all rows in batches.

    The first batch is read immediately, so that errors are raised here.

    Raises:
        InvalidSpec: the filter, the order or a field is invalid.
    """
    columns = columns_of(chosen_fields(question, LISTINGS[question.subject]))
    return columns, _begun(_row_batches(units, question))


def all_curves(units: Units, question: Question, names: Sequence[str] = ()) -> Iterator[Batch]:
    """Return an iterator over the points of all curves, by `CURVE_COLUMNS`.

    The points are those of the jobs' latest attempts, sorted by job, name, replicate and step.
    `names` empty means all curves. The seed is None if the replicate has no result yet. The first
    batch is read immediately.

    Raises:
        InvalidSpec: the filter or the order is invalid.
    """
    ids = Question("results", question.filter_text, question.order_by, ("id",))
    return _begun(_curve_batches(units, ids, names))


def _begun(batches: Iterator[Batch]) -> Iterator[Batch]:
    nothing: Batch = ()
    first = next(batches, nothing)
    return chain([first], batches)


def _row_batches(units: Units, question: Question) -> Iterator[Batch]:
    token: str | None = None
    while True:
        with units() as session:
            page = rows(session, question, ROWS_AT_ONCE, token)
        yield [list(row.values()) for row in page.data]
        token = page.next_page_token
        if token is None:
            return


def _curve_batches(units: Units, ids: Question, names: Sequence[str]) -> Iterator[Batch]:
    token: str | None = None
    while True:
        with units() as session:
            page = rows(session, ids, JOBS_AT_ONCE, token)
        yield from _points(units, [UUID(str(row["id"])) for row in page.data], names)
        token = page.next_page_token
        if token is None:
            return


def _points(units: Units, jobs: Sequence[UUID], names: Sequence[str]) -> Iterator[Batch]:
    """Yield the points of some jobs at a time.

    A job that a full batch interrupts is finished by itself: with one condition for both cases,
    Postgres would read everything between the jobs.
    """
    left = sorted(jobs)
    while left:
        points = _read(units, _curves(left, names))
        yield _cells(points)
        if len(points) < POINTS_AT_ONCE:
            return
        interrupted: UUID = points[-1].job_id
        while len(points) == POINTS_AT_ONCE:
            last = points[-1]
            after = tuple_(*_PLACE[1:]) > tuple_(last.attempt, last.name, last.replicate, last.step)
            points = _read(units, _curves([interrupted], names).where(after))
            yield _cells(points)
        left = [job for job in left if job > interrupted]


_PLACE = (
    MetricPointRow.job_id,
    MetricPointRow.attempt,
    MetricPointRow.name,
    MetricPointRow.replicate,
    MetricPointRow.step,
)


def _read(units: Units, query: Select[*tuple[Any, ...]]) -> Sequence[Row[*tuple[Any, ...]]]:
    with units() as session:
        return session.execute(query.order_by(*_PLACE).limit(POINTS_AT_ONCE)).all()


def _cells(points: Sequence[Row[*tuple[Any, ...]]]) -> Batch:
    return [[cell(value) for value in row[:-1]] for row in points]


def _curves(jobs: Sequence[UUID], names: Sequence[str]) -> Select[*tuple[Any, ...]]:
    """Return the points with `CURVE_COLUMNS` and the attempt."""
    point = MetricPointRow
    ended = (
        (Replicate.job_id == point.job_id)
        & (Replicate.attempt == point.attempt)
        & (Replicate.replicate == point.replicate)
        & Replicate.job_id.in_(jobs)  # Postgres does not infer this
    )
    of_job = (point.job_id, Job.task, Job.method, point.name)
    query = (
        select(*of_job, point.replicate, Replicate.seed, point.step, point.value, point.attempt)
        .join(Job, (Job.id == point.job_id) & (Job.attempt == point.attempt))
        .outerjoin(Replicate, ended)
        .where(point.job_id.in_(jobs), Job.id.in_(jobs))
    )
    return query.where(point.name.in_(names)) if names else query
