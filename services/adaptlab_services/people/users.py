"""Users, as admins of the server manage them."""

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.values import Name, Value
from adaptlab_answers.paging import Page
from adaptlab_answers.people import Quotas, UserView
from adaptlab_db.tables import HubToken, User
from adaptlab_services import paging
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.limits import quotas
from adaptlab_services.paging import Cursor
from adaptlab_services.people import audit
from adaptlab_services.people.tokens import Principal


class NewUser(Value):
    """A user to create, who is a member of no project at first."""

    name: Name
    is_admin: bool = False


class UserChanges(Value):
    """Changes to a user; None leaves a field. An inactive user cannot sign in.

    `quotas` replace all of the user's quotas; those they omit are the server's.
    """

    is_admin: bool | None = None
    is_active: bool | None = None
    quotas: Quotas | None = None


def create(session: Session, new: NewUser) -> UserView:
    """Create a user; raises `StateConflict` if the name is taken."""
    audit.note(session, is_admin=new.is_admin)
    row = {"name": new.name, "is_admin": new.is_admin}
    statement = insert(User).values(row).on_conflict_do_nothing().returning(User.id)
    if session.execute(statement).one_or_none() is None:
        raise StateConflict(f"A user named {new.name!r} already exists. Choose another name.")
    return get(session, new.name)


def get(session: Session, name: str) -> UserView:
    """Return a user; raises `Absent`."""
    return _view(_row(session, name))


def id_of(session: Session, name: str) -> int:
    """Return the id of a user; raises `Absent`."""
    return _row(session, name).id


def page(session: Session, page_size: int, page_token: str | None = None) -> Page[UserView]:
    """Return a page of all users, sorted by name."""
    query = select(User).order_by(User.name).limit(paging.page_limit(page_size))
    if page_token is not None:
        query = query.where(User.name > paging.read(page_token, "users").key)
    rows = session.scalars(query).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        token = paging.written(Cursor(shown[-1].name, ""), "users")
    return Page(data=tuple(_view(row) for row in shown), next_page_token=token)


def change(session: Session, principal: Principal, name: str, changes: UserChanges) -> UserView:
    """Change a user; raises `Absent`.

    Raises `StateConflict` for admins who would deactivate or demote themselves.
    """
    row = _row(session, name)
    for right, before in (("is_admin", row.is_admin), ("is_active", row.deactivated_at is None)):
        if (after := getattr(changes, right)) is not None:
            audit.note(session, **{right: {"before": before, "after": after}})
    if changes.quotas is not None:
        before, after = quotas.own_of(row).model_dump(), changes.quotas.model_dump()
        audit.note(session, quotas={"before": before, "after": after})
    if row.id == principal.user_id and (changes.is_active is False or changes.is_admin is False):
        raise StateConflict(
            "You cannot deactivate yourself or give up your own admin rights, so that at least one "
            "admin remains. Ask another admin."
        )
    values: dict[str, object] = {}
    if changes.is_admin is not None:
        values["is_admin"] = changes.is_admin
    if changes.is_active is not None:
        values["deactivated_at"] = None if changes.is_active else func.clock_timestamp()
    if changes.quotas is not None:
        values["max_queue_hours"] = changes.quotas.queue_hours
        values["max_stored_bytes"] = changes.quotas.stored_bytes
    if changes.is_active is False:
        session.execute(delete(HubToken).where(HubToken.user_id == row.id))
    if values:
        session.execute(update(User).where(User.id == row.id).values(values))
        session.expire(row)
    return get(session, name)


def _row(session: Session, name: str) -> User:
    row = session.scalars(select(User).where(User.name == name)).one_or_none()
    if row is None:
        raise Absent("user", name)
    return row


def _view(row: User) -> UserView:
    return UserView(
        name=row.name,
        is_admin=row.is_admin,
        is_active=row.deactivated_at is None,
        quotas=quotas.own_of(row),
        created_at=row.created_at,
    )
