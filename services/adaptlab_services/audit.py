"""The audit log: who did what, when, from where, and whether it was allowed."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, insert, select
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_db.tables import AuditEntry
from adaptlab_services import paging
from adaptlab_services.moments import Moment
from adaptlab_services.paging import Cursor, Page
from adaptlab_services.tokens import Principal

JsonObject = dict[str, object]
FAILED_AUTHENTICATION = "failed_authentication"
LONGEST_TEXT = 200


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


class AuditView(Value):
    """One thing that was done or refused.

    `action` is the name of the operation, `object` what it was done to or what it made, and
    `status` the answer's. `details` are other facts, such as how many like it were left out.
    """

    id: int
    at: Moment
    actor: str | None
    token_id: int | None
    address: str | None
    action: str
    object: str | None
    status: int
    request_id: UUID
    details: JsonObject | None


class AuditFilter(Value):
    """Which entries are wanted; None means any."""

    actor: str | None = None
    action: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def record(session: Session, entry: Entry) -> None:
    """Append one entry; nothing can change it afterwards."""
    who = entry.principal
    row = {
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
    session.execute(insert(AuditEntry), [row])


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
    """What an address says, cut and without characters that a text column or terminal minds."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:LONGEST_TEXT])
