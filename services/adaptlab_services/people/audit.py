"""The audit log: who did what, when, from where, and whether it was allowed."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CTE, ColumnElement, bindparam, insert, select
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_answers.paging import Page
from adaptlab_answers.people import AuditView
from adaptlab_db.tables import AuditEntry
from adaptlab_services import paging
from adaptlab_services.paging import Cursor
from adaptlab_services.people.tokens import Principal, without_tokens

JsonObject = dict[str, object]
FAILED_AUTHENTICATION = "failed_authentication"
REFUSALS_LEFT_OUT = "refusals_left_out"
"""Stands for as many refusals as its details say, which followed each other too quickly."""
LONGEST_TEXT = 200
_FACTS = "audit_facts"


@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be written down; `principal` is None where nobody could be told."""

    principal: Principal | None
    address: str | None
    action: str
    object: str | None
    status: int
    request_id: UUID
    details: JsonObject | None = None


class AuditFilter(Value):
    """Which entries are wanted; None means any."""

    actor: str | None = None
    action: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def note(session: Session, **facts: object) -> None:
    """Keep facts for the entry of the request that this unit of work is of, such as rights.

    They are there for a refusal too: what was asked for.
    """
    session.info[_FACTS] = session.info.get(_FACTS, {}) | facts


def facts(session: Session) -> JsonObject | None:
    """What was noted in a unit of work, or None."""
    return session.info.get(_FACTS)


def record(session: Session, entry: Entry) -> None:
    """Append one entry; nothing can change it afterwards."""
    session.execute(_INSERT, _row(entry))


def beside() -> CTE:
    """What appends an entry as part of another statement, which is executed with its `given`."""
    columns = {name: bindparam(_GIVEN + name, type_=_ENTRIES.c[name].type) for name in _COLUMNS}
    return insert(_ENTRIES).values(columns).cte("entry")


def given(entry: Entry, made: UUID) -> dict[str, Any]:  # columns of any type
    """The parameters of `beside` for the entry of what makes the object of that id."""
    row = _row(replace(entry, object=str(made)))
    return {_GIVEN + name: value for name, value in row.items()}


def _row(entry: Entry) -> dict[str, Any]:
    who = entry.principal
    return {
        "actor_id": None if who is None else who.user_id,
        "actor": None if who is None else who.name,
        "token_id": None if who is None else who.token_id,
        "address": entry.address,
        "action": entry.action,
        "object": None if entry.object is None else _printable(entry.object),
        "status": entry.status,
        "request_id": entry.request_id,
        "details": entry.details,
    }


# The table and not the class: the ORM's way to the same statement takes twice the time.
_ENTRIES = AuditEntry.metadata.tables[AuditEntry.__tablename__]
_INSERT = insert(_ENTRIES)
_COLUMNS = (
    *("actor_id", "actor", "token_id", "address", "action", "object"),
    *("status", "request_id", "details"),
)
_GIVEN = "entry_"


def page(
    session: Session, wanted: AuditFilter, page_size: int, page_token: str | None = None
) -> Page[AuditView]:
    """Entries, newest first; raises `InvalidSpec` for a page token that makes no sense."""
    question = ("audit", wanted.model_dump_json())
    query = select(AuditEntry).where(*_conditions(wanted)).order_by(AuditEntry.id.desc())
    if page_token is not None:
        query = query.where(AuditEntry.id < paging.read(page_token, *question).row())
    rows = session.scalars(query.limit(paging.page_limit(page_size))).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        token = paging.written(Cursor("", str(shown[-1].id)), *question)
    return Page(data=tuple(_view(row) for row in shown), next_page_token=token)


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    equal = {
        AuditEntry.actor: wanted.actor,
        AuditEntry.action: wanted.action,
        AuditEntry.object: wanted.object,
    }
    found = [column == value for column, value in equal.items() if value is not None]
    if wanted.since is not None:
        found.append(AuditEntry.at >= wanted.since)
    if wanted.until is not None:
        found.append(AuditEntry.at < wanted.until)
    return found


def _view(row: AuditEntry) -> AuditView:
    return AuditView.model_validate({name: getattr(row, name) for name in AuditView.model_fields})


def _printable(text: str) -> str:
    """What an address says, cut, without tokens and what a text column or terminal minds."""
    shown = without_tokens(text)[:LONGEST_TEXT]
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else "\ufffd" for c in shown)
