"""Values of the pages of projects, users and the audit log."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlencode

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab_api.pages.rendering.team_tabs import TEAM, team_tabs
from adaptlab_api.requests.dependencies import valid
from adaptlab_db.tables import PROJECT_ROLES
from adaptlab_services.people import audit, invitations, projects, users
from adaptlab_services.people.access import Access, is_at_least
from adaptlab_services.people.audit import AuditFilter
from adaptlab_services.people.invitations import OwnChanges
from adaptlab_services.people.projects import NewMember, NewProject
from adaptlab_services.people.tokens import Principal
from adaptlab_services.people.users import NewUser

T = TypeVar("T")

USERS = "/users"
AUDIT = "/audit"
PAGE_SIZE = 50
FIELDS = {"/name": "Name", "/role": "Role", "/since": "From", "/until": "Until"}
NO_USER = "User: there is no user with this name. An admin of the server creates users."
ROLES = {
    "reader": "reads everything",
    "submitter": "also submits, and changes what is their own",
    "operator": "also changes what others created, and webhooks",
    "admin": "also manages members",
}
NEW_PROJECT, NEW_MEMBER = TypeAdapter(NewProject), TypeAdapter(NewMember)
NEW_USER, OWN_CHANGES = TypeAdapter(NewUser), TypeAdapter(OwnChanges)
AUDIT_FILTER = TypeAdapter(AuditFilter)
TIMES = ("since", "until")
_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")


def text_of(fields: Mapping[str, Sequence[str]], name: str) -> str:
    """Return a field of a form without surrounding space; empty if absent."""
    return next(iter(fields.get(name, ())), "").strip()


def asked(adapter: TypeAdapter[T], **members: object) -> T:
    """Return the value that a form asks for.

    Raises `InvalidSpec`, or `Refused` for NUL.
    """
    return valid(adapter, json.dumps(members).encode())


def projects_page(
    session: Session,
    principal: Principal,
    rights: Access,
    chosen: str | None = None,
    name: str = "",
) -> dict[str, object]:
    """Return the values of the list.

    `chosen` is the only project that the browser shows, and `name` that of a refused one.
    """
    return {
        "chosen": chosen,
        "projects": projects.listed(session, rights).data,
        "usual": rights.project,
        "invitations": invitations.pending(session, principal.user_id),
        "own_name": principal.name,
        "is_admin": rights.is_admin,
        "name": name,
        "faults": (),
        "tabs": team_tabs(rights),
    }


def project_page(session: Session, rights: Access, name: str, user: str = "") -> dict[str, object]:
    """Return the values of a project's page; raises `Absent`.

    `user` is that of a refused form.
    """
    project_id = projects.id_of(session, rights, name)
    return {
        "project": name,
        "members": projects.members(session, rights, name).data,
        "may_manage": is_at_least(rights.role_in(project_id), "admin"),
        "adds_at_once": rights.is_admin,
        "role": rights.role_in(project_id),
        "user": user,
        "roles": {role: ROLES[role] for role in PROJECT_ROLES},
        "faults": (),
        "tabs": team_tabs(rights),
        "tab": TEAM,
    }


def users_page(
    session: Session, rights: Access, own_name: str, page_token: str | None = None, name: str = ""
) -> dict[str, object]:
    """Return the values of the list of users; raises `InvalidSpec`."""
    page = users.page(session, PAGE_SIZE, page_token)
    following = page.next_page_token
    return {
        "users": page.data,
        "own_name": own_name,
        "name": name,
        "first": USERS if page_token else None,
        "following": following and f"{USERS}?{urlencode({'page_token': following})}",
        "faults": (),
        "tabs": team_tabs(rights),
    }


def audit_page(
    session: Session, rights: Access, filters: Mapping[str, str], page_token: str | None = None
) -> dict[str, object]:
    """Return the values of the audit log; raises `InvalidSpec`.

    `filters` are the conditions that are not empty, by the names of `AuditFilter`. A time without
    an offset, as browsers send it, is in UTC.
    """
    with_offsets = {
        name: f"{text}Z" if name in TIMES and _LOCAL.fullmatch(text) else text
        for name, text in filters.items()
    }
    wanted = asked(AUDIT_FILTER, **with_offsets)
    page = audit.page(session, wanted, PAGE_SIZE, page_token)
    following = page.next_page_token
    return {
        "entries": page.data,
        "filters": {name: filters.get(name, "") for name in AuditFilter.model_fields},
        "first": f"{AUDIT}?{urlencode(filters)}" if page_token else None,
        "following": following and f"{AUDIT}?{urlencode({**filters, 'page_token': following})}",
        "tabs": team_tabs(rights),
    }
