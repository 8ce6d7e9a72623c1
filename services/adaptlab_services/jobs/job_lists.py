"""Lists of jobs or of their summaries, page by page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Select, literal_column, select, tuple_
from sqlalchemy.orm import Session

from adaptlab_answers.jobs import JobSummary, JobView
from adaptlab_answers.paging import Page
from adaptlab_db.tables import Job
from adaptlab_db.visibility import VISIBLE
from adaptlab_services import paging
from adaptlab_services.jobs.job_views import (
    Columns,
    columns_of,
    job_rows,
    job_summaries,
    job_view,
    summary_rows,
)
from adaptlab_services.paging import Cursor
from adaptlab_services.querying.job_filters import in_study, matching

Order = Literal["created_at", "-created_at"]
Rows = Select[*tuple[Any, ...]]  # columns of several types
Which = Select[UUID, datetime]  # jobs, and when they were created


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs, and which page of them.

    Those for which `filter_text` holds, with `study` only those that belong to it, newest first
    unless `order_by` says otherwise.
    """

    filter_text: str = ""
    study: UUID | None = None
    order_by: Order = "-created_at"
    page_size: int = paging.DEFAULT_PAGE_SIZE
    page_token: str | None = None

    @property
    def most(self) -> int:
        """How many rows to read: one more than are shown, to see whether more follow."""
        return paging.page_limit(self.page_size)

    @property
    def is_of_all(self) -> bool:
        """Whether it asks for the first of all jobs that are seen."""
        return not self.filter_text and self.study is None and self.page_token is None

    def bound(self) -> tuple[str, ...]:
        """What a page token is bound to."""
        study = () if self.study is None else (str(self.study),)
        return ("jobs", self.filter_text, self.order_by, *study)


def page(session: Session, query: JobQuery) -> Page[JobView]:
    """The jobs asked for; raises `InvalidSpec` for a filter or a page token that makes no sense."""
    found, token = _page(session, query, job_rows)
    return Page(data=tuple(map(job_view, found)), next_page_token=token)


def summaries(session: Session, query: JobQuery) -> Page[JobSummary]:
    """The same without their specs, which is most of the work."""
    found, token = _page(session, query, summary_rows)
    return Page(data=job_summaries(found), next_page_token=token)


def newest(
    session: Session, holds: Sequence[ColumnElement[bool]], most: int
) -> tuple[JobView, ...]:
    """The newest jobs for which all of this holds, so many at most."""
    statement = _ordered(job_rows(), _all().where(*holds), "-created_at", most)
    return tuple(map(job_view, columns_of(session.execute(statement))))


def _page(
    session: Session, query: JobQuery, rows: Callable[[], Rows]
) -> tuple[Sequence[Columns], str | None]:
    """The rows of one page, and the token of the next."""
    if query.is_of_all and _sees_one_kind(session):
        statement = _first_of_all(rows, query.order_by, query.most)
    else:
        statement = _ordered(rows(), _which(session, query), query.order_by, query.most)
    found = columns_of(session.execute(statement))
    shown = found[: query.most - 1]
    if len(found) == len(shown):
        return shown, None
    last = shown[-1]
    cursor = Cursor(last["created_at"].isoformat(), str(last["id"]))
    return shown, paging.written(cursor, *query.bound())


def _sees_one_kind(session: Session) -> bool:
    """Whether the order of the jobs seen is that of an index: of those of one project, or of all.

    Of several projects one can have few jobs among very many.
    """
    visible: Sequence[int] | None = session.info.get(VISIBLE)
    return visible is None or len(visible) <= 1


def _which(session: Session, query: JobQuery) -> Which:
    which = _all()
    if query.filter_text:
        which = matching(session, which, query.filter_text)
    if query.study is not None:
        which = which.where(in_study(query.study))
    if query.page_token is not None:
        cursor = paging.read(query.page_token, *query.bound())
        which = which.where(_after(cursor, descending=query.order_by.startswith("-")))
    return which


def _all() -> Which:
    return select(Job.id, Job.created_at).select_from(Job)


@lru_cache(maxsize=64)
def _first_of_all(rows: Callable[[], Rows], order_by: Order, most: int) -> Rows:
    """Kept, as making it takes as long as asking it; it says nothing of who asks.

    How many is part of the text, so that the database plans it once: of a parameter it would expect
    a tenth of all jobs, and make another plan each time. With a filter, or for several projects, it
    is to do that: what is good for a frequent value is bad for a rare one.
    """
    return _ordered(rows(), _all(), order_by, literal_column(str(most), Integer()))


def _ordered(rows: Rows, which: Which, order_by: Order, most: int | ColumnElement[int]) -> Rows:
    """The rows of the first so many jobs, in order.

    First which jobs, on what indexes know of them; the rest is wide and read for a page only.
    """
    found = which.order_by(*_order(Job.created_at, Job.id, order_by)).limit(most).subquery("found")
    joined = rows.join(found, found.c.id == Job.id)
    return joined.order_by(*_order(found.c.created_at, found.c.id, order_by))


def _order(at: Any, job_id: Any, order_by: Order) -> tuple[ColumnElement[Any], ...]:  # columns
    return (at.desc(), job_id.desc()) if order_by.startswith("-") else (at, job_id)


def _after(cursor: Cursor, *, descending: bool) -> ColumnElement[bool]:
    try:
        place = tuple_(datetime.fromisoformat(cursor.key), UUID(cursor.id))
    except ValueError as error:
        raise paging.bad_token("It belongs to another list.") from error
    here = tuple_(Job.created_at, Job.id)
    return here < place if descending else here > place
