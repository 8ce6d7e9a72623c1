"""Keyset pagination: a page ends with a token that names its last row."""

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from adaptlab.errors import InvalidSpec, Problem

T = TypeVar("T")
SqlTime = InstrumentedAttribute[datetime]
SqlId = InstrumentedAttribute[UUID]

DEFAULT_PAGE_SIZE = 50
LARGEST_PAGE_SIZE = 200
LONGEST_NUMBER = 18
"""Most digits of a row's id; Postgres rejects numbers above 64 bits."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: the value it was sorted by, and its id."""

    key: str
    id: str

    def row(self) -> int:
        """Return the id as a number; raises `InvalidSpec` if it is not one."""
        if len(self.id) > LONGEST_NUMBER or not self.id.isdecimal():
            raise bad_token("It belongs to another list.")
        return int(self.id)

    def older(self, created_at: SqlTime, identity: SqlId) -> ColumnElement[bool]:
        """Return the condition of rows after this one, newest first.

        Raises:
            InvalidSpec: the cursor is not one of such a list.
        """
        try:
            place = tuple_(datetime.fromisoformat(self.key), UUID(self.id))
        except ValueError as error:
            raise bad_token("It belongs to another list.") from error
        return tuple_(created_at, identity) < place


def page_limit(page_size: int) -> int:
    """Return the number of rows to read: one more than the page shows.

    The additional row shows that another page follows.
    """
    return min(page_size, LARGEST_PAGE_SIZE) + 1


def written(cursor: Cursor, *question: str) -> str:
    """Return the opaque token of a cursor, bound to its filter and order."""
    content = json.dumps([_fingerprint(question), cursor.key, cursor.id], separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()


def read(token: str, *question: str) -> Cursor:
    """Return the cursor of a token.

    Raises:
        InvalidSpec: the token is malformed or belongs to another list, filter or order.
    """
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        content = base64.b64decode(padded, altchars=b"-_", validate=True)
        fingerprint, key, identity = _CONTENT.validate_json(content)
    except (ValueError, ValidationError, binascii.Error) as error:
        raise bad_token("It was not issued by this server.") from error
    if "\x00" in key + identity:  # tokens can be forged, and Postgres rejects NUL in text
        raise bad_token("It was not issued by this server.")
    if fingerprint != _fingerprint(question):
        raise bad_token("It belongs to another filter or order.")
    return Cursor(key, identity)


def bad_token(detail: str) -> InvalidSpec:
    """Return the error for a page token that cannot be used."""
    problem = Problem(
        pointer="/query/page_token",
        code="invalid_page_token",
        detail=f"This page token is invalid. {detail} Start again without one.",
    )
    return InvalidSpec(problem)


def _fingerprint(question: tuple[str, ...]) -> str:
    return hashlib.sha256("\x00".join(question).encode()).hexdigest()[:16]


_CONTENT: TypeAdapter[tuple[str, str, str]] = TypeAdapter(tuple[str, str, str])
