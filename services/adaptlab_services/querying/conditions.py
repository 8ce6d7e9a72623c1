"""Translation of filters to SQL conditions.

Every value becomes a bound parameter. A comparison with a missing value is false, never unknown, so
NOT selects all other rows.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from types import MappingProxyType
from uuid import UUID

from sqlalchemy import ColumnElement, and_, or_, true

from adaptlab_db.tables import Job
from adaptlab_services.querying.fields import Column, Field, Fields, Joins
from adaptlab_services.querying.filtering import (
    FieldComparison,
    Filter,
    Operand,
    Operator,
    invalid_filter,
    parse,
)
from adaptlab_services.querying.spec_lookups import rare_jobs

LARGEST_INTEGER = 2**63 - 1
Value = str | int | float | datetime | UUID
ORDERED = ("<", "<=", ">", ">=")
TEXT_OPERATORS = ("~", "!~")


def condition(text: str, fields: Fields, joins: Joins) -> ColumnElement[bool] | None:
    """Return the condition of a filter on the rows of a subject.

    None for an empty filter. `joins` collects the tables to join. Raises `InvalidSpec` for an
    invalid filter.
    """
    return _meaning(parse(text), fields, joins) if text.strip() else None


def _meaning(
    meaning: Filter, fields: Fields, joins: Joins, *, is_negated: bool = False
) -> ColumnElement[bool]:
    """Return the condition of a parsed filter.

    Only comparisons that are not negated are looked up. If few jobs have a value, many lack it, and
    a job created since the lookup would be among these.
    """
    if isinstance(meaning, FieldComparison):
        return _comparison(meaning, fields, joins, is_negated=is_negated)
    is_negated = is_negated or meaning.operator == "NOT"
    terms = [_meaning(term, fields, joins, is_negated=is_negated) for term in meaning.terms]
    if meaning.operator == "NOT":
        return _not(terms[0])
    return and_(*terms) if meaning.operator == "AND" else or_(*terms)


def _comparison(
    asked: FieldComparison, fields: Fields, joins: Joins, *, is_negated: bool
) -> ColumnElement[bool]:
    field = fields.find(asked.field)
    if field is None:
        raise invalid_filter(
            f"There is no field {asked.field[:64]!r} of {fields.subject} at character "
            f"{asked.position + 1}.",
            asked.position,
            allowed=fields.names,
            nearest=fields.nearest(asked.field),
        )
    _check_operator(field, asked)
    if asked.operator in ("!=", "NOT IN", "!~"):
        opposite: Mapping[str, Operator] = {"!=": "=", "NOT IN": "IN", "!~": "~"}
        positive = FieldComparison(
            asked.field, opposite[asked.operator], asked.operands, asked.position
        )
        return _not(_compared(field, positive, joins))
    holds = _compared(field, asked, joins)
    can_be_rare = bool(field.path) and not is_negated
    rare = rare_jobs(joins, field.path, asked, holds) if can_be_rare else None
    return holds if rare is None else Job.id.in_(rare)


def _compared(field: Field, asked: FieldComparison, joins: Joins) -> ColumnElement[bool]:
    column = field.column(joins)
    nulls = any(operand.is_null for operand in asked.operands)
    values = [operand for operand in asked.operands if not operand.is_null]
    if asked.operator in ("=", "IN"):
        terms = [column.is_(None)] if nulls else []
        terms += [_among(field, column, values, joins)] if values else []
        return or_(*terms)
    if nulls:
        detail = f"{asked.field} can be = or != null, not {asked.operator} null."
        raise invalid_filter(detail, asked.operands[0].position)
    (operand,) = values
    if asked.operator == "~":
        return column.icontains(operand.text, autoescape=True)
    if field.kind == "any":
        assert field.number is not None
        return _ORDERED[asked.operator](field.number(joins), _number(field, operand))
    return _ORDERED[asked.operator](column, _value(field, operand))


def _among(
    field: Field, column: Column, operands: list[Operand], joins: Joins
) -> ColumnElement[bool]:
    if field.among is not None:
        return field.among([operand.text for operand in operands])
    if field.kind == "any":
        return or_(*(_equal(field, column, operand, joins) for operand in operands))
    values = [_value(field, operand) for operand in operands]
    return column == values[0] if len(values) == 1 else column.in_(values)


def _equal(field: Field, column: Column, operand: Operand, joins: Joins) -> ColumnElement[bool]:
    """Return the equality of a field of kind `any` with a value.

    They are compared as numbers if a number is written, else as text.
    """
    assert field.number is not None
    if operand.quoted or _as_number(operand.text) is None:
        return column == operand.text
    return field.number(joins) == _number(field, operand)


def _not(term: ColumnElement[bool]) -> ColumnElement[bool]:
    return term.is_not(true())


def _check_operator(field: Field, asked: FieldComparison) -> None:
    is_text = field.kind == "text"
    if field.among is not None or field.kind == "id":
        allowed = ["=", "!=", "IN", "NOT IN"]
        allowed += list(TEXT_OPERATORS) if field.name != "study" and field.kind != "id" else []
    else:
        allowed = ["=", "!=", *(() if is_text else ORDERED), "IN", "NOT IN"]
        allowed += TEXT_OPERATORS if field.kind in ("text", "any") else ()
    if asked.operator not in allowed:
        detail = f"{asked.field} is compared with {', '.join(allowed)}, not {asked.operator}."
        raise invalid_filter(detail, asked.position, allowed=allowed)


def _value(field: Field, operand: Operand) -> Value:
    return _READ[field.kind](field, operand)


def _text(field: Field, operand: Operand) -> str:
    if field.allowed and operand.text not in field.allowed:
        raise invalid_filter(
            f"{operand.text[:64]!r} at character {operand.position + 1} is not a valid "
            f"{field.name}.",
            operand.position,
            allowed=field.allowed,
            nearest=get_close_matches(operand.text, field.allowed, n=2, cutoff=0.5),
        )
    return operand.text


def _integer(field: Field, operand: Operand) -> int:
    try:
        value = int(operand.text) if len(operand.text) <= 20 else None
    except ValueError:
        value = None
    if value is None or abs(value) > LARGEST_INTEGER:
        raise _wrong(field, operand, f"a whole number of at most {LARGEST_INTEGER}")
    return value


def _number(field: Field, operand: Operand) -> float:
    value = _as_number(operand.text)
    if value is None:
        raise _wrong(field, operand, "a number such as 0.9 or 1e-3")
    return value


def _as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _moment(field: Field, operand: Operand) -> datetime:
    try:
        moment = datetime.fromisoformat(operand.text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        wanted = "a time such as 2026-11-21 or 2026-11-21T08:30:00Z"
        raise _wrong(field, operand, wanted) from error


def _id(field: Field, operand: Operand) -> UUID:
    try:
        return UUID(operand.text)
    except ValueError as error:
        wanted = "an id such as 3f0c5e6a-9d1b-4a7e-8a53-0c2f6f1f7b11"
        raise _wrong(field, operand, wanted) from error


def _wrong(field: Field, operand: Operand, wanted: str) -> Exception:
    at = operand.position
    value = f"{operand.text[:40]!r} at character {at + 1}"
    return invalid_filter(f"{field.name} is compared with {wanted}, not {value}.", at)


_READ: Mapping[str, Callable[[Field, Operand], Value]] = MappingProxyType(
    {"text": _text, "integer": _integer, "number": _number, "time": _moment, "id": _id}
)
_Compare = Callable[[Column, Value], ColumnElement[bool]]
_ORDERED: Mapping[str, _Compare] = MappingProxyType(
    {
        "<": lambda column, value: column < value,
        "<=": lambda column, value: column <= value,
        ">": lambda column, value: column > value,
        ">=": lambda column, value: column >= value,
    }
)
