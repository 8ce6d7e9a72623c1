"""Orders of lists by a number or a time, and the place of a row in them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, tuple_

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_services import paging
from adaptlab_services.paging import Cursor
from adaptlab_services.querying.fields import Column, Field, Fields

SORTED_BY = ("integer", "number", "time")

Place = tuple[UUID | int, ...]


@dataclass(frozen=True, slots=True)
class Ordering:
    """A field, and whether large values come first.

    Rows with the same value are in the order of their identity, which follows it in every method.
    """

    field: Field
    descending: bool

    def clause(self, columns: Sequence[Any]) -> tuple[ColumnElement[Any], ...]:  # of any type
        """Return the columns as an ORDER BY needs them."""
        return tuple(column.desc() if self.descending else column.asc() for column in columns)

    def after(
        self,
        columns: Sequence[Column],
        cursor: Cursor,
        read_identity: Callable[[Sequence[str]], Place],
    ) -> ColumnElement[bool]:
        """Return the condition that a row follows the last one of a page.

        Raises `InvalidSpec` for a cursor of another list.
        """
        last = self._last(cursor, read_identity)
        here = tuple_(*columns)
        return here < last if self.descending else here > last

    def _last(self, cursor: Cursor, read_identity: Callable[[Sequence[str]], Place]) -> Any:
        try:
            key: object = json.loads(cursor.key)
            if self.field.kind == "time":
                key = datetime.fromisoformat(str(key))
            elif not isinstance(key, int | float) or not abs(key) < 2**63:
                raise ValueError(key)
            return tuple_(key, *read_identity(json.loads(cursor.id)))
        except (ValueError, TypeError) as error:
            raise paging.bad_token("It belongs to another list.") from error


def ordering(text: str, fields: Fields) -> Ordering:
    """Return the order that `order_by` names; a `-` in front turns it round.

    Raises `InvalidSpec` for a field that does not exist, or cannot be sorted by.
    """
    field = fields.named(text.removeprefix("-"), "order_by")
    if field.kind not in SORTED_BY:
        detail = f"{field.name} has the type {field.kind}. Sort by a number or a time."
        raise InvalidSpec(Problem("/query/order_by", "invalid_query", detail))
    return Ordering(field, text.startswith("-"))


def cursor_of(value: object, identity: Sequence[object]) -> Cursor:
    """Return the place of a row, by its sorted value and its identity."""
    key = json.dumps(value.isoformat() if isinstance(value, datetime) else value)
    return Cursor(key, json.dumps([str(part) for part in identity]))
