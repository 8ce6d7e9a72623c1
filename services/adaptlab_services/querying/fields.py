"""Fields of queries: one table per subject, and families of fields.

`labels.<name>` is an example of a family. Filters, orders, groupings and the columns of an answer
all use the same table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, TypeVarTuple

from sqlalchemy import ColumnElement, Select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_db.tables import AttemptRow, Job, JobMetric, Project, User

Columns = TypeVarTuple("Columns")
Kind = Literal["text", "integer", "number", "time", "id", "any"]
# Any: a column of whatever type its table gives it; `Kind` says what it is compared with.
Column = ColumnElement[Any] | InstrumentedAttribute[Any]
NEAR = 0.5


class Joins:
    """The tables that a query joins to the jobs.

    Each is joined once, and only if it is used. With a session, rare values are looked up before
    the query is run.
    """

    def __init__(self, session: Session | None = None) -> None:
        self.session = session
        self.lookups = 0
        self._metrics: dict[str, type[JobMetric]] = {}
        self._reads_owner = False
        self._reads_project = False
        self._reads_attempt = False

    def owner(self) -> type[User]:
        """Join the owners of the jobs."""
        self._reads_owner = True
        return User

    def project(self) -> type[Project]:
        """Join the projects of the jobs."""
        self._reads_project = True
        return Project

    def attempt(self) -> type[AttemptRow]:
        """Join the latest attempts; a job that was never started has NULL."""
        self._reads_attempt = True
        return AttemptRow

    def metric(self, name: str) -> type[JobMetric]:
        """Join one metric; a job without it has NULL."""
        if name not in self._metrics:
            self._metrics[name] = aliased(JobMetric, name=f"metric_{len(self._metrics)}")
        return self._metrics[name]

    def onto(self, query: Select[*Columns]) -> Select[*Columns]:
        """Add the joins to a query of jobs."""
        if self._reads_owner:
            query = query.join(User, User.id == Job.owner_id)
        if self._reads_project:
            query = query.join(Project, Project.id == Job.project_id)
        if self._reads_attempt:
            latest = (AttemptRow.job_id == Job.id) & (AttemptRow.attempt == Job.attempt)
            query = query.outerjoin(AttemptRow, latest)
        for name, metric in self._metrics.items():
            query = query.outerjoin(metric, (metric.job_id == Job.id) & (metric.name == name))
        return query


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a subject.

    Attributes:
        name: name in a filter.
        kind: type of the values that it is compared with; `any` takes numbers and texts.
        means: meaning, in one line for users.
        column: the column or expression of its value.
        allowed: its values, if there are few.
        also: other names for it.
        is_indexed: whether a filter on it alone finds its first page at once, however many jobs
            there are.
        among: condition that it is one of several texts, if that is not plain equality.
        number: for `any`: its value as a number.
        path: for a member of the resolved spec: the names that lead to it.
        json: for `any`: its JSON value, which is shown instead of the text of `column`.
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
    json: Callable[[Joins], Column] | None = None

    def shown(self, joins: Joins) -> Column:
        """Return the column of the values in an answer."""
        return (self.json or self.column)(joins)


@dataclass(frozen=True, slots=True)
class FieldFamily:
    """Fields that share a prefix.

    `of` returns the field of a name, or None for an invalid one.
    """

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
    families: tuple[FieldFamily, ...] = ()

    def find(self, name: str) -> Field | None:
        """Return the field with a name, or None if there is none.

        The name can also be another name that the field has.
        """
        if (field := self._by_name.get(name)) is not None:
            return field
        for family in self.families:
            if name.startswith(family.prefix):
                return family.of(name)
        return None

    def named(self, name: str, parameter: str) -> Field:
        """Return the field that a query parameter names; raises `InvalidSpec`."""
        field = self.find(name)
        if field is None:
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
        return field

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, and the patterns of the families."""
        names = (field.name for field in self.fields)
        return (*names, *(family.pattern for family in self.families))

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return the names closest to one that does not exist."""
        members = (name for family in self.families for name in family.known)
        return tuple(get_close_matches(name, [*self._by_name, *members], n=3, cutoff=NEAR))

    @cached_property
    def _by_name(self) -> Mapping[str, Field]:
        return {name: field for field in self.fields for name in (field.name, *field.also)}
