"""The audit log: actor, action, time, address and outcome of requests."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, insert, or_, select
from sqlalchemy.orm import Session

from adaptlab.printable import one_line
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
"""The action of an entry that replaces refusals in rapid succession.

Its details count them.
"""
LONGEST_TEXT = 200
OF_MEMBERS = ("put_member", "delete_member", "accept_invitation")
"""Actions that change the members of a project, which both sides can see."""
_FACTS = "audit_facts"


@dataclass(frozen=True, slots=True)
class Entry:
    """An audit entry to write; `principal` is None if authentication failed."""

    principal: Principal | None
    address: str | None
    action: str
    object: str | None
    status: int
    request_id: str
    details: JsonObject | None = None


class AuditFilter(Value):
    """Conditions on audit entries; None matches any."""

    actor: str | None = None
    action: str | None = None
    object: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user who reads the log: their own entries, and some of others.

    Those are changes of the user's memberships, and of the members of `administered` projects.
    """

    name: str
    administered: tuple[str, ...] = ()

    def condition(self) -> ColumnElement[bool]:
        """Return the condition on the entries that the user can see."""
        place = AuditEntry.object
        concerned = [place.endswith(f"/{self.name}", autoescape=True)]
        for project in self.administered:
            concerned += [place == project, place.startswith(f"{project}/", autoescape=True)]
        changed = and_(AuditEntry.action.in_(OF_MEMBERS), AuditEntry.status < 400)
        return or_(AuditEntry.actor == self.name, and_(changed, or_(*concerned)))

    def view(self, entry: AuditView) -> AuditView:
        """Return the entry without the address and token of another user."""
        if entry.actor == self.name:
            return entry
        return entry.model_copy(update={"address": None, "token_id": None})


def note(session: Session, **facts: object) -> None:
    """Add facts, such as permissions, to the current request's audit entry.

    They are recorded for refused requests too.
    """
    session.info[_FACTS] = session.info.get(_FACTS, {}) | facts


def facts(session: Session) -> JsonObject | None:
    """Return the facts noted in a unit of work, or None."""
    return session.info.get(_FACTS)


def record(session: Session, entry: Entry) -> None:
    """Append one entry; nothing can change it afterwards."""
    session.execute(_INSERT, _row(entry))


def _row(entry: Entry) -> dict[str, Any]:
    actor = entry.principal
    return {
        "actor_id": None if actor is None else actor.user_id,
        "actor": None if actor is None else actor.name,
        "token_id": None if actor is None else actor.token_id,
        "address": entry.address,
        "action": entry.action,
        "object": None if entry.object is None else _printable(entry.object),
        "status": entry.status,
        "request_id": entry.request_id,
        "details": entry.details,
    }


# The table instead of the class: the ORM takes twice as long for the same statement.
_ENTRIES = AuditEntry.metadata.tables[AuditEntry.__tablename__]
_INSERT = insert(_ENTRIES)


def page(
    session: Session,
    wanted: AuditFilter,
    page_size: int,
    page_token: str | None = None,
    viewer: Viewer | None = None,
) -> Page[AuditView]:
    """Return a page of entries, newest first; raises `InvalidSpec`.

    Without a `viewer`, all of them.
    """
    question = ("audit", wanted.model_dump_json())
    query = select(AuditEntry).where(*_conditions(wanted)).order_by(AuditEntry.id.desc())
    if viewer is not None:
        query = query.where(viewer.condition())
    if page_token is not None:
        query = query.where(AuditEntry.id < paging.read(page_token, *question).row())
    rows = session.scalars(query.limit(paging.page_limit(page_size))).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        token = paging.written(Cursor("", str(shown[-1].id)), *question)
    views = tuple(map(_view, shown))
    seen = views if viewer is None else tuple(map(viewer.view, views))
    return Page(data=seen, next_page_token=token)


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    equal = {
        AuditEntry.actor: wanted.actor,
        AuditEntry.action: wanted.action,
        AuditEntry.object: wanted.object,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if wanted.since is not None:
        conditions.append(AuditEntry.at >= wanted.since)
    if wanted.until is not None:
        conditions.append(AuditEntry.at < wanted.until)
    return conditions


def _view(row: AuditEntry) -> AuditView:
    return AuditView.model_validate({name: getattr(row, name) for name in AuditView.model_fields})


def _printable(text: str) -> str:
    """Return the text without tokens and control characters, cut to its limit."""
    return one_line(without_tokens(text)[:LONGEST_TEXT])
