"""Pages of jobs, or of their summaries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Select, literal_column, select
from sqlalchemy.orm import Session

from adaptlab_answers.jobs import JobSummary, JobView
from adaptlab_answers.paging import Page
from adaptlab_db.tables import Job
from adaptlab_db.visibility import RECEIVING, VISIBLE
from adaptlab_services import paging
from adaptlab_services.jobs.views import (
    Columns,
    columns_of,
    job_rows,
    job_summaries,
    job_view,
    summary_rows,
)
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Joins
from adaptlab_services.querying.job_fields import job_fields
from adaptlab_services.querying.list_conditions import Archived, archiving, in_study
from adaptlab_services.querying.ordering import Ordering, cursor_of, ordering

Rows = Select[*tuple[Any, ...]]  # columns of several types
Which = Select[UUID, Any]  # ids of jobs, and what they are sorted by
NEWEST = "-created_at"
NEVER_NULL = ("created_at", "budget.trainable")


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A page of the jobs that match a filter, of one study or of all.

    An empty `filter_text` matches every job. Jobs without the field in `order_by` are left out.
    """

    filter_text: str = ""
    study: UUID | None = None
    order_by: str = NEWEST
    page_size: int = paging.DEFAULT_PAGE_SIZE
    page_token: str | None = None
    archived: Archived = "exclude"

    @property
    def most(self) -> int:
        """Number of rows to read, one more than are shown.

        The additional row shows whether more follow.
        """
        return paging.page_limit(self.page_size)

    @property
    def is_of_all(self) -> bool:
        """Return True if this is the first page of all jobs, without archived."""
        is_narrowed = bool(self.filter_text) or self.study is not None
        return not is_narrowed and self.archived == "exclude" and self.page_token is None

    def bound(self) -> tuple[str, ...]:
        """The members to which a page token is bound."""
        study = () if self.study is None else (str(self.study),)
        archived = () if self.archived == "exclude" else (self.archived,)
        return ("jobs", self.filter_text, self.order_by, *study, *archived)


def page(session: Session, query: JobQuery) -> Page[JobView]:
    """Return a page of jobs.

    Raises `InvalidSpec` for an invalid filter or page token.
    """
    rows, token = _page(session, query, job_rows)
    return Page(data=tuple(map(job_view, rows)), next_page_token=token)


def summaries(session: Session, query: JobQuery) -> Page[JobSummary]:
    """Return a page of jobs without their specs, which are most of the work."""
    rows, token = _page(session, query, summary_rows)
    return Page(data=job_summaries(rows), next_page_token=token)


def newest(
    session: Session, holds: Sequence[ColumnElement[bool]], most: int
) -> tuple[JobView, ...]:
    """Return the newest jobs that meet all conditions, at most `most`."""
    order = ordering(NEWEST, job_fields())
    statement = _ordered(job_rows(), _all().where(*holds), order, most)
    return tuple(map(job_view, columns_of(session.execute(statement))))


def _page(
    session: Session, query: JobQuery, rows: Callable[[], Rows]
) -> tuple[Sequence[Columns], str | None]:
    """Return the rows of one page, and the token of the next."""
    order = ordering(query.order_by, job_fields())
    if query.is_of_all and order.field.name == "created_at" and _sees_one_kind(session):
        statement = _first_of_all(rows, order, query.most)
    else:
        statement = _ordered(rows(), _which(session, query, order), order, query.most)
    read = columns_of(session.execute(statement))
    shown = read[: query.most - 1]
    if len(read) == len(shown):
        return shown, None
    last = shown[-1]
    return shown, paging.written(cursor_of(last["sorted_by"], [last["id"]]), *query.bound())


def _sees_one_kind(session: Session) -> bool:
    """Return True if the session sees one project or all, nothing shared.

    Indexes can list these in order. Among several projects, one can have few jobs among very many
    of others.
    """
    visible: Sequence[int] | None = session.info.get(VISIBLE)
    if session.info.get(RECEIVING):
        return False
    return visible is None or len(visible) <= 1


def _which(session: Session, query: JobQuery, order: Ordering) -> Which:
    joins = Joins(session)
    holds = condition(query.filter_text, job_fields(), joins)
    key = order.field.column(joins)
    which = joins.onto(select(Job.id, key.label("key")).select_from(Job))
    which = which.where(*archiving(Job.archived_at, query.archived))
    if holds is not None:
        which = which.where(holds)
    if query.study is not None:
        which = which.where(in_study(query.study))
    if order.field.name not in NEVER_NULL:
        which = which.where(key.is_not(None))
    if query.page_token is not None:
        cursor = paging.read(query.page_token, *query.bound())
        which = which.where(order.after((key, Job.id), cursor, lambda parts: (UUID(parts[0]),)))
    return which


def _all() -> Which:
    return select(Job.id, Job.created_at.label("key")).select_from(Job)


@lru_cache(maxsize=64)
def _first_of_all(rows: Callable[[], Rows], order: Ordering, most: int) -> Rows:
    """Select the first `most` of all jobs by creation.

    Kept, because building the statement takes as long as running it. `most` is part of the text, so
    that the database keeps one plan: for a parameter it would expect a tenth of all jobs, and plan
    again each time. With a filter, or for several projects, planning again is right: a plan that
    suits a frequent value is bad for a rare one.
    """
    which = _all().where(Job.archived_at.is_(None))
    return _ordered(rows(), which, order, literal_column(str(most), Integer()))


def _ordered(rows: Rows, which: Which, order: Ordering, most: int | ColumnElement[int]) -> Rows:
    """Select the rows of the first `most` jobs, in order.

    The jobs are chosen by indexed columns first; the other columns are wide, and read for one page.
    """
    chosen = which.selected_columns
    in_order = which.order_by(*order.clause((chosen["key"], chosen["id"])))
    first = in_order.limit(most).subquery("first")
    joined = rows.add_columns(first.c.key.label("sorted_by")).join(first, first.c.id == Job.id)
    return joined.order_by(*order.clause((first.c.key, first.c.id)))
