"""The list of jobs, with filters and pagination."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlencode

from sqlalchemy.orm import Session

from adaptlab.plugins.task import TASKS
from adaptlab_answers.jobs import JobSummary
from adaptlab_answers.paging import Page
from adaptlab_api.pages.rendering.filter_bar import fault_of, fields_to_ask
from adaptlab_api.pages.rendering.formats import method_title, words
from adaptlab_api.pages.rendering.job_titles import given_name, short_title
from adaptlab_db.job_states import JOB_STATES, PENDING_STATES
from adaptlab_services.jobs import lists
from adaptlab_services.jobs.lists import JobQuery
from adaptlab_services.lifecycle import workers
from adaptlab_services.lifecycle.workers import UnservedQueue
from adaptlab_services.models import catalogue
from adaptlab_services.studies.studies_of_jobs import first_studies

PAGE_SIZE = 50
# The address has the tokens of at most this many previous pages. Beyond them, `Previous` leads to
# the newest page.
LONGEST_TRAIL = 12
HOW_TO_LIST = ("order_by", "archived")
SORTED = {
    "trainable": "budget.trainable",
    "accuracy": "metrics.accuracy.mean",
    "created": "created_at",
}
"""Columns that sort the list, and their fields."""
TRAIL_SEPARATOR = "."
ACTIVE_SECONDS, IDLE_SECONDS = 2, 10


@dataclass(frozen=True, slots=True)
class JobFilters:
    """The fields of the form above the list; an empty one selects all jobs.

    `filter` is an expression as in `GET /v1/jobs?filter=`, combined with the other fields by AND.
    `order_by` and `archived` are those of the same request; empty ones are its defaults.
    """

    state: str = ""
    method: str = ""
    task: str = ""
    base_model: str = ""
    filter: str = ""
    order_by: str = ""
    archived: Literal["", "only", "include"] = ""

    def query(self) -> dict[str, str]:
        """Return the fields that are not empty."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name))}

    def expression(self) -> str:
        """Return all fields as one expression for `GET /v1/jobs?filter=`."""
        chosen = {name: text for name, text in self.query().items() if name not in HOW_TO_LIST}
        written = chosen.pop("filter", "").strip()
        terms = [f"{name} = {_quoted(value)}" for name, value in chosen.items()]
        return " AND ".join([*terms, f"({written})"] if written else terms)


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of the list, and the tokens of the pages before it."""

    token: str | None = None
    trail: tuple[str, ...] = ()

    @classmethod
    def read(cls, token: str, trail: str) -> "ListPage":
        """Return the page in the address; the first one has no token."""
        steps = tuple(trail.split(TRAIL_SEPARATOR)) if trail else ()
        return cls(token or None, steps)

    def next(self, token: str) -> "ListPage":
        """Return the page that begins at `token`."""
        behind = (*self.trail, self.token or "")
        return ListPage(token, behind[-LONGEST_TRAIL:])

    def previous(self) -> "ListPage":
        """Return the page before, or the first one if that is not known."""
        if not self.trail:
            return ListPage()
        return ListPage(self.trail[-1] or None, self.trail[:-1])

    def address(self, filters: JobFilters) -> str:
        """Return the address of this page of the filtered list."""
        query = filters.query()
        if self.token:
            query["page_token"] = self.token
            query["trail"] = TRAIL_SEPARATOR.join(self.trail)
        return f"/?{urlencode(query)}" if query else "/"


@dataclass(frozen=True, slots=True)
class JobListRow:
    """One line of the list; `seconds` is the running time of the job.

    `name` is that which users gave it. `study` is the name of its first study, and `labels` have
    the addresses of all jobs with each.
    """

    job: JobSummary
    title: str
    name: str | None
    study: str | None
    labels: tuple[tuple[str, str], ...]
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter in words, and the address of the list without it."""

    text: str
    without: str


@dataclass(frozen=True, slots=True)
class SortedColumn:
    """The address that sorts by a column, and how it is sorted now."""

    address: str
    now: Literal["ascending", "descending", "none"]


def job_list(
    session: Session, filters: JobFilters, place: ListPage, now: datetime
) -> dict[str, object]:
    """Return the values of the template; an invalid filter has no jobs."""
    fault = fault_of(filters.filter)
    page: Page[JobSummary] = Page(data=(), next_page_token=None)
    if fault is None:
        query = JobQuery(
            filters.expression(),
            order_by=filters.order_by or lists.NEWEST,
            page_size=PAGE_SIZE,
            page_token=place.token,
            archived=filters.archived or "exclude",
        )
        page = lists.summaries(session, query)
    filtered = bool(filters.query()) or place.token is not None
    studies = first_studies(session, [job.id for job in page.data])
    rows = [
        JobListRow(
            job,
            short_title(job),
            given_name(job),
            studies.get(job.id),
            tuple((f"{name}={text}", _labelled(name, text)) for name, text in job.labels.items()),
            running_seconds(job, now),
        )
        for job in page.data
    ]
    following = page.next_page_token
    return {
        "rows": rows,
        "filters": filters,
        "chips": _chips(filters),
        "leaves_out": filters.order_by.removeprefix("-") not in ("", *lists.NEVER_NULL),
        "sorted": {name: _sorted(filters, field) for name, field in SORTED.items()},
        "back": place.address(filters),
        "fault": fault,
        "expression": filters.expression(),
        "fields": fields_to_ask(),
        "filtered": filtered,
        "has_archived": not page.data and not filtered and _has_archived(session),
        "states": JOB_STATES,
        "methods": _methods(filters.method),
        "tasks": _options(TASKS.names(), filters.task),
        "unserved": unserved_queues(session, page.data),
        "counted": _counted(rows, more=following is not None or place.token is not None),
        "first": ListPage().address(filters),
        "previous": place.previous().address(filters) if place.token else None,
        "following": place.next(following).address(filters) if following else None,
        "poll": None if fault else _poll_seconds(page.data, place),
    }


def _has_archived(session: Session) -> bool:
    return bool(lists.summaries(session, JobQuery(page_size=1, archived="only")).data)


def running_seconds(job: JobSummary, now: datetime) -> float | None:
    """Return the running time in seconds; None if it has not started."""
    if job.started_at is None or not (job.state == "running" or job.terminal):
        return None
    end = job.finished_at or now.astimezone(UTC)
    return max((end - job.started_at).total_seconds(), 0.0)


def unserved_queues(session: Session, listed: Iterable[JobSummary]) -> tuple[UnservedQueue, ...]:
    """Return the queues of waiting jobs from which no live worker takes jobs."""
    wanted = {job.queue.name for job in listed if job.state in PENDING_STATES}
    return workers.unserved(session, wanted) if wanted else ()


def _poll_seconds(listed: Iterable[JobSummary], place: ListPage) -> int | None:
    """Return the polling interval; longer on a first page without active jobs."""
    if any(not job.terminal for job in listed):
        return ACTIVE_SECONDS
    return None if place.token else IDLE_SECONDS


def _counted(rows: list[JobListRow], *, more: bool) -> str:
    running = sum(row.job.state == "running" for row in rows)
    waiting = sum(row.job.state in PENDING_STATES for row in rows)
    shown = f"{len(rows)} on this page" if more else f"{len(rows)} in total"
    return f"{shown}, {running} running, {waiting} waiting" if rows else ""


def _chips(filters: JobFilters) -> tuple[Chip, ...]:
    """Return the filters in words, each with the address that removes it."""
    field = filters.order_by.removeprefix("-")
    texts = {
        "state": f"state: {words(filters.state)}",
        "method": f"method: {method_title(filters.method)}",
        "task": f"task: {words(filters.task)}",
        "base_model": f"base model: {filters.base_model}",
        "filter": filters.filter,
        "order_by": f"sorted by {next((t for t, f in SORTED.items() if f == field), field)}",
        "archived": "archived jobs only" if filters.archived == "only" else "archived jobs too",
    }
    return tuple(
        Chip(texts[name], ListPage().address(replace(filters, **{name: ""})))
        for name in filters.query()
    )


def _sorted(filters: JobFilters, field: str) -> SortedColumn:
    """Return how to sort by a field: large values first, then small ones."""
    order = filters.order_by or lists.NEWEST
    descends = order == f"-{field}"
    now = "descending" if descends else "ascending" if order == field else "none"
    wanted = field if descends else f"-{field}"
    chosen = replace(filters, order_by="" if wanted == lists.NEWEST else wanted)
    return SortedColumn(ListPage().address(chosen), now)


def _labelled(name: str, text: str) -> str:
    return ListPage().address(JobFilters(filter=f"labels.{name} = {_quoted(text)}"))


def _methods(chosen: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the methods by group, including the one in the address."""
    groups = catalogue.grouped_methods()
    is_known = not chosen or any(chosen in names for _, names in groups)
    return groups if is_known else (*groups, ("other", (chosen,)))


def _options(names: tuple[str, ...], chosen: str) -> tuple[str, ...]:
    """Return the names to choose from, including the one in the address."""
    return names if not chosen or chosen in names else (*names, chosen)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
