"""What a query can ask about: one table of fields a subject, and families such as `labels.<name>`.

A filter, an order, a grouping and the columns of an answer all go through the same table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, TypeVarTuple

from sqlalchemy import ColumnElement, Select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_db.tables import Attempt, Job, JobMetric, User

Columns = TypeVarTuple("Columns")
Kind = Literal["text", "integer", "number", "time", "id", "any"]
# Any: a column of whatever type its table gives it; `Kind` says what it is compared with.
Column = ColumnElement[Any] | InstrumentedAttribute[Any]
NEAR = 0.5


class Joins:
    """The tables that one question reads next to the jobs, each joined once, and only if it is.

    With a session, rare values are looked up before the question is asked.
    """

    def __init__(self, session: Session | None = None) -> None:
        self.session = session
        self.lookups = 0
        self._metrics: dict[str, type[JobMetric]] = {}
        self._reads_owner = False
        self._reads_attempt = False

    def owner(self) -> type[User]:
        """The rows of the jobs' owners."""
        self._reads_owner = True
        return User

    def attempt(self) -> type[Attempt]:
        """The rows of the latest attempts; a job that was never started has NULL."""
        self._reads_attempt = True
        return Attempt

    def metric(self, name: str) -> type[JobMetric]:
        """The rows of one metric; a job that has not measured it has NULL."""
        if name not in self._metrics:
            self._metrics[name] = aliased(JobMetric, name=f"metric_{len(self._metrics)}")
        return self._metrics[name]

    def onto(self, query: Select[*Columns]) -> Select[*Columns]:
        """The query, which reads jobs, with these tables next to them."""
        if self._reads_owner:
            query = query.join(User, User.id == Job.owner_id)
        if self._reads_attempt:
            latest = (Attempt.job_id == Job.id) & (Attempt.attempt == Job.attempt)
            query = query.outerjoin(Attempt, latest)
        for name, metric in self._metrics.items():
            query = query.outerjoin(metric, (metric.job_id == Job.id) & (metric.name == name))
        return query


@dataclass(frozen=True, slots=True)
class Field:
    """Something that can be asked about.

    Attributes:
        name: as it is written in a filter.
        kind: what it is compared with; `any` takes numbers and texts.
        means: one line for people.
        column: where its value is.
        allowed: its values, where they are few.
        also: other names for it.
        is_indexed: whether a filter on it alone finds its first page at once, however many jobs.
        among: how to ask whether it is one of several texts, where that is not plain equality.
        number: for `any`: where its value is as a number.
        path: for a member of the resolved spec: the names that lead to it.
    """

    name: str
    kind: Kind
    means: str
    column: Callable[[Joins], Column]
    allowed: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    is_indexed: bool = False
    among: Callable[[Sequence[str]], ColumnElement[bool]] | None = None
    number: Callable[[Joins], Column] | None = None
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Fields whose names begin alike and go on freely; `of` makes one, or None for a bad name."""

    prefix: str
    pattern: str
    means: str
    of: Callable[[str], Field | None]
    known: tuple[str, ...] = ()
    kind: Kind = "text"
    is_indexed: bool = False


@dataclass(frozen=True)
class Fields:
    """The fields of one subject, such as jobs."""

    subject: str
    fields: tuple[Field, ...]
    families: tuple[Family, ...] = ()

    def find(self, name: str) -> Field | None:
        """The field of that name, its own or another one."""
        if (found := self._by_name.get(name)) is not None:
            return found
        for family in self.families:
            if name.startswith(family.prefix):
                return family.of(name)
        return None

    def named(self, name: str, parameter: str) -> Field:
        """The field of that name in another parameter than the filter; raises `InvalidSpec`."""
        found = self.find(name)
        if found is None:
            detail = f"There is no field {name[:64]!r} of {self.subject}."
            raise InvalidSpec(
                Problem(
                    f"/query/{parameter}",
                    "unknown_field",
                    detail,
                    self.names,
                    self.nearest(name),
                )
            )
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """What there is, families by their pattern."""
        return (*(one.name for one in self.fields), *(one.pattern for one in self.families))

    def nearest(self, name: str) -> tuple[str, ...]:
        """The names closest to one that is not known."""
        candidates = [*self._by_name, *(known for one in self.families for known in one.known)]
        return tuple(get_close_matches(name, candidates, n=3, cutoff=NEAR))

    @cached_property
    def _by_name(self) -> Mapping[str, Field]:
        return {name: one for one in self.fields for name in (one.name, *one.also)}
