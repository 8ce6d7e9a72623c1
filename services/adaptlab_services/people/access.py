"""Permissions: roles in projects, and the project that a request concerns.

Visibility is enforced in every statement by `adaptlab_db.visibility`; this module decides what may
be changed. A session without an `Access` belongs to the program itself: a worker, a tool, a test.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, select, true
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.values import Value
from adaptlab_db.session import one_by_one
from adaptlab_db.tables import PROJECT_ROLES, BaseModel, Job, Membership, Project, StudyShare
from adaptlab_db.visibility import ACROSS_PROJECTS, RECEIVING, VISIBLE, LinkedStudy
from adaptlab_services.errors import Absent, Forbidden
from adaptlab_services.people.tokens import Principal

Role = Literal["reader", "submitter", "operator", "admin"]
T = TypeVar("T")

DEFAULT_PROJECT = "default"
MOST_NAMED = 20
CEILINGS: dict[str, Role] = {"read": "reader", "submit": "operator", "admin": "admin"}
"""The highest role that each scope of a token allows its user."""

_ACCESS = "access"
_INSIDE = "inside_project"


class Access(Value):
    """A caller's permissions with one token.

    `roles` are the user's roles in projects, already limited by the token. Names are looked up and
    new resources created in `project_id`, whose name is `project`; both are None if the request
    names no project and the user has no usual one. `visible` lists the projects that the request
    sees; None is all of them, which only admins of the server have. `received` are what other
    projects share with those: each is such a project, and a study or the job of a base model.
    `linked` is the only thing that a visitor by a link sees.
    """

    is_admin: bool
    user_id: int
    roles: tuple[tuple[int, Role], ...]
    project_id: int | None
    visible: tuple[int, ...] | None
    project: str | None = None
    received: tuple[tuple[int, UUID], ...] = ()
    linked: LinkedStudy | None = None

    def role_in(self, project_id: int) -> Role | None:
        """Return the role in a project, or None."""
        return "admin" if self.is_admin else dict(self.roles).get(project_id)

    def covers(self, other: "Access") -> bool:
        """Return True if this allows everything that `other` allows."""
        if other.visible is None or other.is_admin:
            return self.visible is None and self.is_admin >= other.is_admin
        sees = self.visible is None or (
            set(self.visible) >= set(other.visible) and set(self.received) >= set(other.received)
        )
        return sees and all(is_at_least(self.role_in(id_), role) for id_, role in other.roles)

    def highest(self) -> Role | None:
        """Return the highest role in any project, or None."""
        return "admin" if self.is_admin else _highest([role for _, role in self.roles])


def is_at_least(role: Role | None, wanted: Role) -> bool:
    """Return True if a role allows everything that `wanted` allows."""
    return role is not None and _rank(role) >= _rank(wanted)


def access_of(session: Session, principal: Principal, asked: str | None = None) -> Access:
    """Return a token's permissions, in the project `asked` alone if given.

    Raises:
        InvalidSpec: the user is not a member of that project.
    """
    ceiling = _ceiling(principal)
    is_admin = principal.is_admin and ceiling == "admin"
    projects = _projects(session, principal, is_admin=is_admin)
    if principal.project_id is not None:
        projects = [project for project in projects if project[0] == principal.project_id]
    if asked is not None and asked not in {name for _, name, _ in projects}:
        names = [name for _, name, _ in projects]
        yours = ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
        detail = f"You are not a member of a project {asked!r}. Your projects: {yours or 'none'}."
        raise InvalidSpec(Problem("/query/project", "unknown_project", detail))
    lowered: list[tuple[int, Role]] = []
    if ceiling is not None:
        lowered = [(id_, _lower(role, ceiling)) for id_, _, role in projects]
    chosen = next((id_ for id_, name, _ in projects if name == asked), None)
    sees_all = is_admin and asked is None and principal.project_id is None
    ids = tuple(sorted(id_ for id_, _, _ in projects)) if ceiling is not None else ()
    current = chosen or _usual(principal, projects, is_admin=is_admin)
    visible = None if sees_all else ids if chosen is None else (chosen,)
    return Access(
        is_admin=is_admin and principal.project_id is None,
        user_id=principal.user_id,
        roles=tuple(lowered),
        project_id=current,
        visible=visible,
        project=next((name for id_, name, _ in projects if id_ == current), None),
        received=_received(session, visible or ()),
    )


@contextmanager
def unit(sessions: sessionmaker[Session], access: Access) -> Generator[Session]:
    """Open a unit of work with the caller's permissions."""
    with sessions(info=_info(access)) as session, session.begin():
        yield session


@contextmanager
def look(sessions: sessionmaker[Session], access: Access) -> Generator[Session]:
    """Open a session for reading with the caller's permissions.

    Each statement sees what was committed before it, as in any unit of work.
    """
    with one_by_one(sessions, _info(access)) as session:
        yield session


def project_of(session: Session) -> int:
    """Return the project in which names are looked up and resources created.

    Raises:
        Forbidden: the request names no project, and the caller has no usual one or none at all.
    """
    if (inside := session.info.get(_INSIDE)) is not None:
        return inside
    access = _access(session)
    if access is None:
        # The program's own sessions work in the default project, which always exists.
        default = session.scalars(select(Project.id).where(Project.name == DEFAULT_PROJECT)).one()
        session.info[_INSIDE] = default
        return default
    if access.project_id is None:
        raise Forbidden(
            (
                "The request names no project, and you have no usual project or are no longer a "
                "member of it. Name one with `project=` in the address, --project or "
                "ADAPTLAB_PROJECT, or choose your usual one: `adaptlab projects use NAME`."
            )
            if access.roles
            else "You are not a member of any project. Ask an admin to add you to one, or accept "
            "an invitation: `adaptlab whoami` lists yours."
        )
    return access.project_id


def project_name(session: Session) -> str:
    """Return the name of the project that `project_of` returns."""
    project_id, access = project_of(session), _access(session)
    if access is not None and access.project_id == project_id and access.project is not None:
        return access.project
    return session.scalars(select(Project.name).where(Project.id == project_id)).one()


@contextmanager
def inside(session: Session, project_id: int) -> Generator[None]:
    """Look names up, and create, in the project of an existing resource."""
    before = session.info.get(_INSIDE)
    session.info[_INSIDE] = project_id
    try:
        yield
    finally:
        session.info[_INSIDE] = before


def to_create(session: Session) -> int:
    """Return the project in which the caller creates something.

    Raises:
        Forbidden: the caller is not a submitter there.
    """
    project_id = project_of(session)
    access = _access(session)
    if access is not None and not is_at_least(access.role_in(project_id), "submitter"):
        raise Forbidden(
            "This requires the role `submitter` in the project. Ask an admin of the project."
        )
    return project_id


def check_change(session: Session, owner_id: int, project_id: int) -> None:
    """Raise `Forbidden` unless the caller may change a resource of this owner."""
    access = _access(session)
    if access is None:
        return
    _check_own(access, project_id)
    role = access.role_in(project_id)
    if is_at_least(role, "operator"):
        return
    if not is_at_least(role, "submitter"):
        raise Forbidden(
            "This requires the role `submitter` in the project. Ask an admin of the project."
        )
    if owner_id != access.user_id:
        raise Forbidden(
            "This belongs to another user, so it requires the role `operator` in the project."
        )


def check_admin(session: Session, project_id: int) -> None:
    """Raise `Forbidden` unless the caller is an admin of the project."""
    access = _access(session)
    if access is None:
        return
    _check_own(access, project_id)
    if not is_at_least(access.role_in(project_id), "admin"):
        raise Forbidden(
            "This requires the role `admin` in the project, and a token with the scope `admin`. "
            "Ask an admin of the project."
        )


def check_owner(session: Session, owner_id: int, project_id: int) -> None:
    """Raise `Forbidden` unless the caller owns a resource, or is an admin."""
    access = _access(session)
    if access is None:
        return
    _check_own(access, project_id)
    role = access.role_in(project_id)
    owns = owner_id == access.user_id and is_at_least(role, "submitter")
    if not owns and not is_at_least(role, "admin"):
        raise Forbidden("Only its owner or an admin of its project can do this.")


def joined_project(session: Session, name: str) -> int:
    """Return a project of which the caller is a member.

    The request need not show it.

    Raises:
        Absent: there is no such project, or the caller is no member of it.
    """
    project_id = session.scalars(select(Project.id).where(Project.name == name)).one_or_none()
    access = _access(session)
    if project_id is None or (access is not None and access.role_in(project_id) is None):
        raise Absent("project", name)
    return project_id


def receiving_project(session: Session, name: str) -> int:
    """Return a project with which the caller may share something.

    What is shared takes a name there and is read by its members, so that it needs the same role as
    creating it.

    Raises:
        Absent: there is no such project, or the caller is no member of it.
        Forbidden: the caller is only a reader there.
    """
    project_id, access = joined_project(session, name), _access(session)
    if access is not None and not is_at_least(access.role_in(project_id), "submitter"):
        raise Forbidden(
            f"Sharing with the project {name!r} requires the role `submitter` in it, and you are a "
            f"reader. Ask an admin of {name!r} for the role."
        )
    return project_id


def administered_project(session: Session, name: str) -> int | None:
    """Return a project of which the caller is an admin, or None."""
    project_id = session.scalars(select(Project.id).where(Project.name == name)).one_or_none()
    access = _access(session)
    if project_id is None or access is None:
        return project_id
    return project_id if is_at_least(access.role_in(project_id), "admin") else None


def own_jobs(session: Session) -> ColumnElement[bool]:
    """Return the condition on jobs of the caller's projects, not shared ones."""
    access = _access(session)
    if access is None or access.visible is None:
        return true()
    return Job.project_id.in_(access.visible)


def is_joined(session: Session, name: str) -> bool:
    """Return True if the caller is a member of a project."""
    try:
        joined_project(session, name)
    except Absent:
        return False
    return True


def nearest(session: Session, found: Sequence[tuple[int, T]]) -> T | None:
    """Return the match in the request's own project, or the only match.

    `found` holds resources of one name, each with the id of its project. Returns None if there is
    none, or if there are several and none is in that project.
    """
    if len(found) < 2:
        return found[0][1] if found else None
    access = _access(session)
    own = None if access is not None and access.project_id is None else project_of(session)
    return next((match for project_id, match in found if project_id == own), None)


def is_shared(session: Session, project_id: int) -> bool:
    """Return True if a resource of this project is visible as shared only."""
    access = _access(session)
    return access is not None and _is_of_others(access, project_id)


def _check_own(access: Access, project_id: int) -> None:
    if _is_of_others(access, project_id):
        raise Forbidden(
            "This belongs to another project, which shares it for reading only. Ask its owner, or "
            "clone the study into your own project."
        )


def _is_of_others(access: Access, project_id: int) -> bool:
    return access.visible is not None and project_id not in access.visible


def _access(session: Session) -> Access | None:
    return session.info.get(_ACCESS)


def _ceiling(principal: Principal) -> Role | None:
    return _highest([CEILINGS[scope] for scope in principal.scopes if scope in CEILINGS])


def _highest(roles: Sequence[Role]) -> Role | None:
    return max(roles, key=_rank) if roles else None


def _lower(role: Role, ceiling: Role) -> Role:
    return role if _rank(role) <= _rank(ceiling) else ceiling


def _info(access: Access) -> dict[str, object]:
    receiving = tuple(sorted({project_id for project_id, _ in access.received}))
    return {VISIBLE: access.visible, RECEIVING: access.linked or receiving, _ACCESS: access}


def _rank(role: Role) -> int:
    return PROJECT_ROLES.index(role)


def _projects(
    session: Session, principal: Principal, *, is_admin: bool
) -> list[tuple[int, str, Role]]:
    """Return the user's projects with the role in each; all if `is_admin`."""
    if is_admin:
        rows = session.execute(select(Project.id, Project.name).order_by(Project.id))
        return [(id_, name, "admin") for id_, name in rows]
    mine = (
        select(Project.id, Project.name, Membership.role)
        .join(Membership, Membership.project_id == Project.id)
        .where(Membership.user_id == principal.user_id, Membership.accepted_at.is_not(None))
        .order_by(Project.id)
    )
    return [(id_, name, _ROLES[role]) for id_, name, role in session.execute(mine)]


def _received(session: Session, visible: Sequence[int]) -> tuple[tuple[int, UUID], ...]:
    """Return what other projects share with these.

    Each is a receiving project, and a study or the job of a base model.
    """
    if not visible:
        return ()
    here, shared = BaseModel.project_id.in_(visible), BaseModel.shared_from.is_not(None)
    studies = select(StudyShare.project_id, StudyShare.study_id)
    either = studies.where(StudyShare.project_id.in_(visible)).union_all(
        select(BaseModel.project_id, BaseModel.job_id).where(here, shared)
    )
    rows = session.execute(either, execution_options=ACROSS_PROJECTS)
    return tuple(sorted((project_id, id_) for project_id, id_ in rows))


def _usual(
    principal: Principal, projects: Sequence[tuple[int, str, Role]], *, is_admin: bool
) -> int | None:
    """Return the project of requests that name none, or None.

    It changes with the user's own choice only, so that nobody can receive what others create by
    adding them to a project or removing them from another.
    """
    ids = [id_ for id_, _, _ in projects]
    if principal.project_id is None and principal.usual_project_id is not None:
        return principal.usual_project_id if principal.usual_project_id in ids else None
    if is_admin and principal.project_id is None:
        return next((id_ for id_, name, _ in projects if name == DEFAULT_PROJECT), None)
    return ids[0] if len(ids) == 1 else None


_ROLES: dict[str, Role] = {
    "reader": "reader",
    "submitter": "submitter",
    "operator": "operator",
    "admin": "admin",
}
