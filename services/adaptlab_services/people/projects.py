"""Projects, and who may do what in them."""

from typing import Any

from sqlalchemy import Select, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.values import Name, Value
from adaptlab_answers.people import Members, MemberView, Projects, ProjectView
from adaptlab_db.tables import Membership, Project, User
from adaptlab_services.errors import Conflict, Forbidden, NotFound
from adaptlab_services.people import audit, users
from adaptlab_services.people.access import Access, Role, is_at_least


class NewProject(Value):
    """A project to be made."""

    name: Name


class NewMember(Value):
    """What somebody is to be in a project."""

    role: Role


def create(session: Session, found: Access, new: NewProject) -> ProjectView:
    """Make a project; raises `Conflict` for a taken name."""
    made = insert(Project).values(name=new.name).on_conflict_do_nothing().returning(Project.id)
    if session.execute(made).one_or_none() is None:
        raise Conflict(f"A project named {new.name!r} already exists. Choose another name.")
    return _view(session.scalars(select(Project).where(Project.name == new.name)).one(), found)


def listed(session: Session, found: Access) -> Projects:
    """The projects that the asker sees."""
    rows = session.scalars(_seen(found).order_by(Project.name))
    return Projects(data=tuple(_view(row, found) for row in rows))


def id_of(session: Session, found: Access, name: str) -> int:
    """The id of a project that the asker sees; raises `NotFound`."""
    return _row(session, found, name).id


def members(session: Session, found: Access, name: str) -> Members:
    """Who is in a project; raises `NotFound` for one that the asker does not see."""
    rows = session.execute(_members(_row(session, found, name).id).order_by(User.name))
    return Members(data=tuple(_member(row) for row in rows))


def put_member(session: Session, found: Access, name: str, user: str, new: NewMember) -> MemberView:
    """Give somebody a role in a project; raises `NotFound`, and `Forbidden` for who may not."""
    audit.note(session, role={"after": new.role})
    project_id = _administered(session, found, name)
    key = {"user_id": users.id_of(session, user), "project_id": project_id}
    audit.note(session, role={"before": _role(session, **key), "after": new.role})
    row = insert(Membership).values(key | {"role": new.role})
    session.execute(
        row.on_conflict_do_update(index_elements=list(key), set_={"role": row.excluded.role})
    )
    return _member(session.execute(_members(project_id).where(User.name == user)).one())


def remove_member(session: Session, found: Access, name: str, user: str) -> None:
    """Take somebody out of a project; raises as `put_member` does."""
    audit.note(session, role={"after": None})
    project_id = _administered(session, found, name)
    user_id = users.id_of(session, user)
    before = _role(session, user_id=user_id, project_id=project_id)
    audit.note(session, role={"before": before, "after": None})
    session.execute(
        delete(Membership).where(Membership.project_id == project_id, Membership.user_id == user_id)
    )


def _role(session: Session, user_id: int, project_id: int) -> str | None:
    """What somebody is in a project now, and while this unit of work lasts."""
    query = select(Membership.role).where(
        Membership.project_id == project_id, Membership.user_id == user_id
    )
    return session.scalars(query.with_for_update()).one_or_none()


def _administered(session: Session, found: Access, name: str) -> int:
    row = _row(session, found, name)
    if not is_at_least(found.role_in(row.id), "admin"):
        raise Forbidden(f"This requires the role `admin` in the project {name!r}.")
    return row.id


def _seen(found: Access) -> Select[Project]:
    if found.visible is None:
        return select(Project)
    return select(Project).where(Project.id.in_(found.visible))


def _row(session: Session, found: Access, name: str) -> Project:
    row = session.scalars(_seen(found).where(Project.name == name)).one_or_none()
    if row is None:
        raise NotFound("project", name)
    return row


def _view(row: Project, found: Access) -> ProjectView:
    return ProjectView(name=row.name, role=found.role_in(row.id), created_at=row.created_at)


def _members(project_id: int) -> Select[Any, Any, Any]:
    return (
        select(User.name, Membership.role, Membership.created_at)
        .join(Membership, Membership.user_id == User.id)
        .where(Membership.project_id == project_id)
    )


def _member(row: Any) -> MemberView:  # Any: a row of `_members`
    return MemberView(user=row.name, role=row.role, created_at=row.created_at)
