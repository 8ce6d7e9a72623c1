"""People with roles and tokens, and what the audit log has of them."""

from collections.abc import Mapping
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import delete, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_member,
    a_user,
)

from adaptlab_db.tables import Membership, User
from adaptlab_services.people import tokens
from adaptlab_services.people.tokens import create_token

Sessions = sessionmaker[Session]


def somebody(
    sessions: Sessions, name: str, role: str | None = "submitter", *scopes: str
) -> dict[str, str]:
    """The header of somebody who is no admin of the server."""
    with sessions.begin() as session:
        user = a_user(session, name)
        without_projects(session, user)
        if role is not None:
            a_member(session, user, role=role)
        token = create_token(session, user, "for a test", scopes or ("read", "submit", "admin"))
    return bearer(token)


def without_projects(session: Session, user_id: int) -> None:
    """Remove all memberships, as if there had never been one."""
    session.execute(delete(Membership).where(Membership.user_id == user_id))
    session.execute(update(User).where(User.id == user_id).values(usual_project_id=None))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def entries(api: TestClient, query: str = "") -> list[dict[str, Any]]:
    return api.get(f"/v1/audit?page_size=200&{query}").json()["data"]


def person(
    sessions: Sessions,
    name: str,
    roles: Mapping[str, str],
    scopes: tuple[str, ...] = ("read", "submit", "admin"),
) -> dict[str, str]:
    """The header of somebody with these roles in projects, and no others."""
    with sessions.begin() as session:
        user = a_user(session, name)
        without_projects(session, user)
        for project, role in roles.items():
            a_member(session, user, project, role)
        token = tokens.create_token(session, user, "for a test", scopes)
    return {"Authorization": f"Bearer {token}"}
