"""Jobs whose resolved spec has a rare value somewhere, found by an index instead of a scan.

Frequent values need none: a list finds its page among the jobs that it reads first. Which jobs have
a value is asked of a GIN index, and which numbers there are in a range of `spec_numbers`.
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
from adaptlab_services.querying.filtering import Comparison, Operand, Operator
from adaptlab_services.querying.query_fields import Joins

MOST_RARE = 2000
"""Jobs with a rare value; more are found soon enough by reading jobs in order."""
MOST_VALUES = 200
"""Values that are looked up for one comparison."""
MOST_LOOKUPS = 8
"""Comparisons of one question whose values are looked up."""
LARGEST_EXACT = 2**53
_PLACE = re.compile(r"-?\d+")


def rare_jobs(
    joins: Joins, path: Sequence[str], asked: Comparison, holds: ColumnElement[bool]
) -> Sequence[UUID] | None:
    """The jobs that a comparison of a member of the spec holds for, if they are few; else None.

    `holds` is the comparison itself, which also rejects what the index finds in excess.
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


def _values(session: Session, path: Sequence[str], asked: Comparison) -> Sequence[object] | None:
    """The values in JSON for which the comparison may hold; None where they are not known."""
    if any(operand.is_null for operand in asked.operands):
        return None
    if asked.operator in ("=", "IN"):
        equal = [_equal(operand) for operand in asked.operands]
        return None if None in equal else [value for one in equal if one for value in one]
    compare = _COMPARE.get(asked.operator)
    if compare is None:
        return None
    # Compared as floats are, like the condition itself: 1e-99999 is 0, which numeric is not.
    holds = compare(SpecNumber.number, Decimal(repr(float(asked.operands[0].text))))
    numbers = select(SpecNumber.number).where(SpecNumber.path == ".".join(path), holds)
    found = session.scalars(numbers.distinct().limit(MOST_VALUES + 1))
    return [int(one) if one == int(one) else float(one) for one in found]


_COMPARE: Mapping[Operator, Callable[[Any, Decimal], ColumnElement[bool]]] = MappingProxyType(
    {"<": lt, "<=": le, ">": gt, ">=": ge}
)


def _equal(operand: Operand) -> Sequence[object] | None:
    """The JSON that equals an operand: a number as written, a text, or what reads like the text.

    None where that is not known: as floats, several large integers are equal.
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
    """The smallest resolved spec that has the value there."""
    for name in reversed(path):
        value = {name: value}
    return value


def _having(
    session: Session, documents: Sequence[object], holds: ColumnElement[bool]
) -> Sequence[UUID]:
    """Some of the jobs that contain one of the documents, one more than are rare.

    Each document is looked up by itself: of several at once, Postgres would expect to find enough
    by reading jobs.
    """
    wanted = (
        func.jsonb_array_elements(literal(documents, JSONB))
        .table_valued(column("document", JSONB))
        .render_derived("wanted")
    )
    jobs = select(Job.id).where(Job.resolved_spec.contains(wanted.c.document), holds)
    found = jobs.limit(MOST_RARE + 1).correlate(wanted).lateral("found")
    query = select(found.c.id).join_from(wanted, found, true()).limit(MOST_RARE + 1)
    return session.scalars(query).all()
