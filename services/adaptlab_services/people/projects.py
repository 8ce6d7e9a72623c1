"""Projects and their members."""

from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.values import Name, Value
from adaptlab_answers.people import Members, MemberView, Projects, ProjectView
from adaptlab_db.tables import Membership, Project, User
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.people import audit, invitations, users
from adaptlab_services.people.access import Access, Role, is_at_least
from adaptlab_services.people.tokens import Principal


class NewProject(Value):
    """A project to create."""

    name: Name


class NewMember(Value):
    """The role that a user is to have in a project."""

    role: Role


def create(session: Session, rights: Access, new: NewProject) -> ProjectView:
    """Create a project; raises `StateConflict` if the name is taken."""
    statement = insert(Project).values(name=new.name).on_conflict_do_nothing()
    if session.execute(statement.returning(Project.id)).one_or_none() is None:
        raise StateConflict(f"A project named {new.name!r} already exists. Choose another name.")
    return _view(session.scalars(select(Project).where(Project.name == new.name)).one(), rights)


def listed(session: Session, rights: Access) -> Projects:
    """Return the projects that the caller sees."""
    rows = session.scalars(_seen(rights).order_by(Project.name))
    return Projects(data=tuple(_view(row, rights) for row in rows))


def viewer_of(session: Session, principal: Principal, rights: Access) -> audit.Viewer | None:
    """Return the limits of the caller's view of the audit log.

    None for admins of the server, who see all of it.

    Raises:
        Forbidden: the token is for one project only.
    """
    if rights.is_admin:
        return None
    if principal.project_id is not None:
        raise Forbidden(
            "The audit log covers all of your projects, and this token is for one. Use a token "
            "for all of them."
        )
    mine = [id_ for id_, role in rights.roles if is_at_least(role, "admin")]
    names = session.scalars(select(Project.name).where(Project.id.in_(mine)))
    return audit.Viewer(principal.name, tuple(names))


def id_of(session: Session, rights: Access, name: str) -> int:
    """Return a project's id; raises `Absent` if the caller cannot see it."""
    return _row(session, rights, name).id


def members(session: Session, rights: Access, name: str) -> Members:
    """Return a project's members; raises `Absent`."""
    rows = session.execute(_members(_row(session, rights, name).id).order_by(User.name))
    return Members(data=tuple(_member(row) for row in rows))


def put_member(
    session: Session, rights: Access, name: str, user: str, new: NewMember
) -> MemberView:
    """Give a member a role in a project, or invite a user to it.

    An admin of the server makes users members at once.

    Raises:
        Absent: the user does not exist, or the caller does not see the project.
        Forbidden: the caller is not an admin of the project.
    """
    audit.note(session, role={"after": new.role})
    project_id = _administered(session, rights, name)
    key = {"user_id": users.id_of(session, user), "project_id": project_id}
    audit.note(session, role={"before": _role(session, **key), "after": new.role})
    accepted = func.clock_timestamp() if rights.is_admin else None
    row = insert(Membership).values(key | {"role": new.role, "accepted_at": accepted})
    values = {
        "role": row.excluded.role,
        "accepted_at": func.coalesce(Membership.accepted_at, row.excluded.accepted_at),
    }
    session.execute(row.on_conflict_do_update(index_elements=list(key), set_=values))
    if rights.is_admin:
        invitations.joined(session, **key)
    return _member(session.execute(_members(project_id).where(User.name == user)).one())


def remove_member(
    session: Session, principal: Principal, rights: Access, name: str, user: str
) -> None:
    """Remove a user or an invitation from a project.

    Users can leave by themselves. Raises what `put_member` raises.
    """
    audit.note(session, role={"after": None})
    if user == principal.name:
        invitations.leave(session, principal, name)
        return
    project_id = _administered(session, rights, name)
    invitations.removed(session, users.id_of(session, user), project_id)


def accept(session: Session, principal: Principal, name: str) -> ProjectView:
    """Accept an invitation; raises what `invitations.accept` raises."""
    project_id = invitations.accept(session, principal, name)
    mine = (Membership.project_id == project_id, Membership.user_id == principal.user_id)
    role = session.scalars(select(Membership.role).where(*mine)).one()
    row = session.get_one(Project, project_id)
    return ProjectView(name=row.name, role=role, created_at=row.created_at)


def _role(session: Session, user_id: int, project_id: int) -> str | None:
    """Return a user's role in a project, locked until the unit of work ends."""
    query = select(Membership.role).where(
        Membership.project_id == project_id, Membership.user_id == user_id
    )
    return session.scalars(query.with_for_update()).one_or_none()


def _administered(session: Session, rights: Access, name: str) -> int:
    row = _row(session, rights, name)
    if not is_at_least(rights.role_in(row.id), "admin"):
        raise Forbidden(f"This requires the role `admin` in the project {name!r}.")
    return row.id


def _seen(rights: Access) -> Select[Project]:
    if rights.visible is None:
        return select(Project)
    return select(Project).where(Project.id.in_(rights.visible))


def _row(session: Session, rights: Access, name: str) -> Project:
    row = session.scalars(_seen(rights).where(Project.name == name)).one_or_none()
    if row is None:
        names = session.scalars(_seen(rights)).all()
        raise Absent("project", name, [one.name for one in names])
    return row


def _view(row: Project, rights: Access) -> ProjectView:
    return ProjectView(name=row.name, role=rights.role_in(row.id), created_at=row.created_at)


def _members(project_id: int) -> Select[Any, Any, Any, Any]:
    return (
        select(User.name, Membership.role, Membership.created_at, Membership.accepted_at)
        .join(Membership, Membership.user_id == User.id)
        .where(Membership.project_id == project_id)
    )


def _member(row: Any) -> MemberView:  # Any: a row of `_members`
    return MemberView(
        user=row.name, role=row.role, created_at=row.created_at, accepted_at=row.accepted_at
    )
