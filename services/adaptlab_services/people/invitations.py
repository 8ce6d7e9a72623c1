"""Decisions of users about their own projects: join, leave, usual one.

An admin of a project invites users; only an admin of the server makes them members directly. So
nobody can change where the requests of others go that name no project.
"""

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.orm import Session

from adaptlab.values import Name, Value
from adaptlab_answers.people import InvitationView
from adaptlab_db.tables import Membership, Project, User
from adaptlab_services.errors import Absent, Forbidden
from adaptlab_services.people import audit
from adaptlab_services.people.access import Access
from adaptlab_services.people.tokens import Principal

DECIDING = frozenset({"submit", "admin"})
"""Scopes of tokens that can change the projects of their user."""


class OwnChanges(Value):
    """Changes to the caller: the project of requests that name none."""

    usual_project: Name


def pending(session: Session, user_id: int) -> tuple[InvitationView, ...]:
    """Return the invitations that a user has not accepted, by project."""
    rows = session.execute(
        select(Project.name, Membership.role, Membership.created_at)
        .join(Membership, Membership.project_id == Project.id)
        .where(Membership.user_id == user_id, Membership.accepted_at.is_(None))
        .order_by(Project.name)
    )
    return tuple(InvitationView(project=row[0], role=row[1], created_at=row[2]) for row in rows)


def accept(session: Session, principal: Principal, name: str) -> int:
    """Accept an invitation to a project; return the project's id.

    Raises:
        Absent: the caller has no such invitation.
        Forbidden: the token is for one project, or for reading only.
    """
    _check_may_decide(principal)
    project = select(Project.id).where(Project.name == name).scalar_subquery()
    mine = (Membership.user_id == principal.user_id, Membership.project_id == project)
    accepted = session.execute(
        update(Membership)
        .where(*mine, Membership.accepted_at.is_(None))
        .values(accepted_at=func.clock_timestamp())
        .returning(Membership.project_id, Membership.role)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if accepted is None:
        raise Absent("invitation to the project", name)
    audit.note(session, role={"before": None, "after": accepted.role})
    joined(session, principal.user_id, accepted.project_id)
    return accepted.project_id


def leave(session: Session, principal: Principal, name: str) -> None:
    """Leave a project, or decline its invitation; all objects stay.

    Raises:
        Absent: the caller is neither a member nor invited.
        Forbidden: the token is for one project, or for reading only.
    """
    _check_may_decide(principal)
    project_id = session.scalars(select(Project.id).where(Project.name == name)).one_or_none()
    if project_id is None or not removed(session, principal.user_id, project_id):
        raise Absent("project", name)


def choose(session: Session, principal: Principal, rights: Access, changes: OwnChanges) -> None:
    """Set the project of requests that name none.

    Raises:
        Absent: the caller is no member of the project.
        Forbidden: the token is for one project, or for reading only.
    """
    _check_may_decide(principal)
    query = select(Project.id).where(Project.name == changes.usual_project)
    project_id = session.scalars(query).one_or_none()
    if project_id is None or rights.role_in(project_id) is None:
        raise Absent("project", changes.usual_project)
    mine = User.id == principal.user_id
    before = session.scalars(
        select(Project.name).join(User, User.usual_project_id == Project.id).where(mine)
    ).one_or_none()
    audit.note(session, usual_project={"before": before, "after": changes.usual_project})
    session.execute(update(User).where(mine).values(usual_project_id=project_id))


def joined(session: Session, user_id: int, project_id: int) -> None:
    """Make a user's first project the usual one.

    That of an admin of the server remains the default project.
    """
    another = exists().where(
        Membership.user_id == user_id,
        Membership.project_id != project_id,
        Membership.accepted_at.is_not(None),
    )
    session.execute(
        update(User)
        .where(User.id == user_id, User.usual_project_id.is_(None), ~User.is_admin, ~another)
        .values(usual_project_id=project_id)
        .execution_options(synchronize_session=False)
    )


def removed(session: Session, user_id: int, project_id: int) -> bool:
    """Remove a member or an invitation; return True if there was one.

    A usual project that was left stays named, so that requests are refused and not sent to another
    project. It is forgotten when the user has no project any more.
    """
    mine = Membership.user_id == user_id
    role = session.scalars(
        delete(Membership)
        .where(mine, Membership.project_id == project_id)
        .returning(Membership.role)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    audit.note(session, role={"before": role, "after": None})
    has_any = exists().where(mine, Membership.accepted_at.is_not(None))
    session.execute(
        update(User)
        .where(User.id == user_id, User.usual_project_id == project_id, ~has_any)
        .values(usual_project_id=None)
        .execution_options(synchronize_session=False)
    )
    return role is not None


def _check_may_decide(principal: Principal) -> None:
    if principal.project_id is not None or not DECIDING & set(principal.scopes):
        raise Forbidden(
            "This changes the projects of your user, so it requires a token with the scope "
            "`submit` that is valid for all of your projects."
        )
