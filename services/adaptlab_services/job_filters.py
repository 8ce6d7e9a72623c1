"""What a filter of jobs means in SQL: which fields there are and how each is compared."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, and_, cast, not_, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from adaptlab_db.tables import JOB_STATES, Job, Study, StudyJob, User
from adaptlab_services.filtering import (
    Comparison,
    Filter,
    Operand,
    Operator,
    fault,
    parse,
)

LARGEST_INTEGER = 2**63 - 1
LABEL_PREFIX = "labels."
STUDY = "study"

Kind = Literal["word", "integer", "moment"]
# Any: a column of whatever type its table gives it; `Kind` says what it is compared with.
Column = InstrumentedAttribute[Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A column that can be filtered by; `allowed` lists its values where they are few."""

    column: Column
    kind: Kind = "word"
    allowed: tuple[str, ...] = ()


def job_fields() -> dict[str, Field]:
    """The fields of a job that can be filtered by, besides `study` and `labels.<name>`."""
    return {
        "state": Field(Job.state, allowed=JOB_STATES),
        "reason": Field(Job.reason),
        "kind": Field(Job.kind, allowed=("pretrain", "import", "adapt", "theory")),
        "method": Field(Job.method),
        "task": Field(Job.task),
        "family": Field(Job.family),
        "base_model": Field(Job.base_model),
        "owner": Field(User.name),
        "queue": Field(Job.queue),
        "spec_digest": Field(Job.spec_digest),
        "priority": Field(Job.priority, "integer"),
        "trainable_parameters": Field(Job.trainable_parameters, "integer"),
        "budget_requested": Field(Job.budget_requested, "integer"),
        "created_at": Field(Job.created_at, "moment"),
        "started_at": Field(Job.started_at, "moment"),
        "finished_at": Field(Job.finished_at, "moment"),
    }


def job_condition(text: str) -> ColumnElement[bool] | None:
    """The condition that a filter puts on jobs joined with their owners; None for no filter.

    Every value becomes a bound parameter. Raises `InvalidSpec` for a filter that makes no sense.
    """
    return _condition(parse(text)) if text.strip() else None


def in_study(study: UUID | Select[UUID]) -> ColumnElement[bool]:
    """Whether a job belongs to a study, or to one of several."""
    which = [study] if isinstance(study, UUID) else study
    return Job.id.in_(select(StudyJob.job_id).where(StudyJob.study_id.in_(which)))


def _condition(meaning: Filter) -> ColumnElement[bool]:
    if isinstance(meaning, Comparison):
        return _comparison(meaning)
    terms = tuple(_condition(term) for term in meaning.terms)
    return _JOINED[meaning.operator](terms)


def _comparison(comparison: Comparison) -> ColumnElement[bool]:
    if comparison.field.startswith(LABEL_PREFIX):
        return _label_comparison(comparison)
    if comparison.field == STUDY:
        return _study_comparison(comparison)
    fields = job_fields()
    if comparison.field not in fields:
        raise fault(
            f"There is no field {comparison.field!r} to filter jobs by.",
            allowed=(*fields, STUDY, f"{LABEL_PREFIX}<name>"),
            nearest=tuple(get_close_matches(comparison.field, fields, n=2, cutoff=0.5)),
        )
    field = fields[comparison.field]
    values = tuple(_value(field, comparison.field, operand) for operand in comparison.operands)
    return _compared(field.column, comparison.operator, values, comparison)


def _compared(
    column: Column,
    operator: Operator,
    values: tuple[str | int | datetime | None, ...],
    comparison: Comparison,
) -> ColumnElement[bool]:
    if operator == "IN":
        given = [value for value in values if value is not None]
        # NULL is never IN a list, so asking for null among others is a term of its own.
        return or_(column.in_(given), column.is_(None)) if None in values else column.in_(given)
    (value,) = values
    if operator == "=":
        return column.is_not_distinct_from(value)
    if operator == "!=":
        return column.is_distinct_from(value)
    if value is None:
        raise fault(f"{comparison.field} can be = or != null, not {operator} null.")
    return _ORDERED[operator](column, value)


def _label_comparison(comparison: Comparison) -> ColumnElement[bool]:
    name = comparison.field.removeprefix(LABEL_PREFIX)
    if comparison.operator not in ("=", "!=", "IN"):
        raise fault(f"A label is compared with =, != or IN, not {comparison.operator}.")
    found = or_(*(_labelled(name, operand) for operand in comparison.operands))
    return not_(found) if comparison.operator == "!=" else found


def _study_comparison(comparison: Comparison) -> ColumnElement[bool]:
    """Whether a job belongs to a study, which is named by its name or its id."""
    if comparison.operator not in ("=", "!=", "IN"):
        raise fault(f"A study is compared with =, != or IN, not {comparison.operator}.")
    names = [operand.text for operand in comparison.operands]
    named = Study.name.in_(names) | cast(Study.id, Text).in_([name.lower() for name in names])
    belongs = in_study(select(Study.id).where(named))
    return not_(belongs) if comparison.operator == "!=" else belongs


def _labelled(name: str, operand: Operand) -> ColumnElement[bool]:
    if operand.text == "null" and not operand.quoted:
        return not_(Job.labels.has_key(name))
    return Job.labels.contains({name: operand.text})


def _value(field: Field, name: str, operand: Operand) -> str | int | datetime | None:
    if operand.text == "null" and not operand.quoted:
        return None
    if field.kind == "integer":
        return _integer(name, operand)
    if field.kind == "moment":
        return _moment(name, operand)
    if field.allowed and operand.text not in field.allowed:
        raise fault(
            f"{operand.text!r} at character {operand.position + 1} is no {name}.",
            allowed=field.allowed,
            nearest=tuple(get_close_matches(operand.text, field.allowed, n=2, cutoff=0.5)),
        )
    return operand.text


def _integer(name: str, operand: Operand) -> int:
    try:
        value = int(operand.text) if len(operand.text) <= 20 else None
    except ValueError:
        value = None
    if value is None or abs(value) > LARGEST_INTEGER:
        raise fault(
            f"{name} is compared with a whole number of at most {LARGEST_INTEGER}, "
            f"not {operand.text[:40]!r} at character {operand.position + 1}."
        )
    return value


def _moment(name: str, operand: Operand) -> datetime:
    try:
        moment = datetime.fromisoformat(operand.text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise fault(
            f"{name} is compared with a time such as 2026-11-21 or 2026-11-21T08:30:00Z, "
            f"not {operand.text[:40]!r} at character {operand.position + 1}."
        ) from error


_JOINED: dict[
    Literal["AND", "OR", "NOT"],
    Callable[[tuple[ColumnElement[bool], ...]], ColumnElement[bool]],
] = {
    "AND": lambda terms: and_(*terms),
    "OR": lambda terms: or_(*terms),
    "NOT": lambda terms: not_(terms[0]),
}
_ORDERED: dict[str, Callable[[Column, str | int | datetime], ColumnElement[bool]]] = {
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}
