"""Lookups of jobs with a rare value in their resolved spec.

They use an index instead of a scan. Frequent values need no lookup: a list finds its page among the
jobs that it reads first. A GIN index finds the jobs with a value, and the table `spec_numbers` the
numbers in a range.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session
from sqlalchemy.sql import column

from adaptlab_db.tables import Job, SpecNumber
from adaptlab_services.querying.fields import Joins
from adaptlab_services.querying.filtering import FieldComparison, Operand, Operator

MOST_RARE = 2000
"""Largest number of jobs with a rare value; more are found fast by reading jobs in order."""
MOST_VALUES = 200
"""Number of values that are looked up per comparison."""
MOST_LOOKUPS = 8
"""Number of comparisons per query whose values are looked up."""
LARGEST_EXACT = 2**53
_PLACE = re.compile(r"-?\d+")


def rare_jobs(
    joins: Joins, path: Sequence[str], asked: FieldComparison, holds: ColumnElement[bool]
) -> Sequence[UUID] | None:
    """Return the jobs that match a comparison of a member of the spec.

    None if there are many. `holds` is the condition of the comparison, which rejects what the index
    finds in excess.
    """
    session = joins.session
    if session is None or joins.lookups >= MOST_LOOKUPS or any(map(_PLACE.fullmatch, path)):
        return None
    joins.lookups += 1
    values = _values(session, path, asked)
    if values is None or len(values) > MOST_VALUES:
        return None
    ids = _having(session, [_document(path, value) for value in values], holds)
    return ids if len(ids) <= MOST_RARE else None


def _values(
    session: Session, path: Sequence[str], asked: FieldComparison
) -> Sequence[object] | None:
    """Return the JSON values that can match the comparison.

    None if they cannot be listed.
    """
    if any(operand.is_null for operand in asked.operands):
        return None
    if asked.operator in ("=", "IN"):
        equal = [_equal(operand) for operand in asked.operands]
        return None if None in equal else [value for values in equal if values for value in values]
    compare = _COMPARE.get(asked.operator)
    if compare is None:
        return None
    # As float, like the condition itself: there 1e-99999 is 0, but not as numeric.
    holds = compare(SpecNumber.number, Decimal(repr(float(asked.operands[0].text))))
    numbers = select(SpecNumber.number).where(SpecNumber.path == ".".join(path), holds)
    values = session.scalars(numbers.distinct().limit(MOST_VALUES + 1))
    return [int(value) if value == int(value) else float(value) for value in values]


_COMPARE: Mapping[Operator, Callable[[Any, Decimal], ColumnElement[bool]]] = MappingProxyType(
    {"<": lt, "<=": le, ">": gt, ">=": ge}
)


def _equal(operand: Operand) -> Sequence[object] | None:
    """Return the JSON values that equal an operand: a number, a text, or both.

    None if they cannot be listed: as floats, several large integers are equal.
    """
    text = operand.text
    number = _number(text)
    if number is not None and abs(number) >= LARGEST_EXACT:
        return None
    if number is not None and not operand.quoted:
        return (number,)
    if text.startswith(("[", "{")):  # a list or an object, compared by its text
        return None
    if text in ("true", "false"):
        return (text, text == "true")
    return (text,) if number is None else (text, number)


def _number(text: str) -> int | float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _document(path: Sequence[str], value: object) -> object:
    """Return the smallest resolved spec with the value at that path."""
    for name in reversed(path):
        value = {name: value}
    return value


def _having(
    session: Session, documents: Sequence[object], holds: ColumnElement[bool]
) -> Sequence[UUID]:
    """Return jobs that contain one of the documents, at most `MOST_RARE` + 1.

    Each document is looked up separately. For several at once, Postgres would expect to find enough
    matches by reading jobs in order.
    """
    wanted = (
        func.jsonb_array_elements(literal(documents, JSONB))
        .table_valued(column("document", JSONB))
        .render_derived("wanted")
    )
    jobs = select(Job.id).where(Job.resolved_spec.contains(wanted.c.document), holds)
    matches = jobs.limit(MOST_RARE + 1).correlate(wanted).lateral("matches")
    query = select(matches.c.id).join_from(wanted, matches, true()).limit(MOST_RARE + 1)
    return session.scalars(query).all()
