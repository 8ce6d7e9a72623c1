"""Tokens create and end only tokens that allow no more than they do."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_member, a_project, a_user

from adaptlab_db.tables import Token, User
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.people import issued_tokens
from adaptlab_services.people.access import access_of
from adaptlab_services.people.admission import Admissions
from adaptlab_services.people.issued_tokens import NewToken
from adaptlab_services.people.tokens import authenticate, create_token

Sessions = sessionmaker[Session]
Header = Mapping[str, str]
SOON = timedelta(days=10)
HERE = {"Sec-Fetch-Site": "same-origin"}


def a_text(
    sessions: Sessions,
    *scopes: str,
    user: str = "eva",
    project: str | None = None,
    ends: timedelta | None = None,
    is_admin: bool = False,
) -> str:
    """A token of a submitter in `default`, made beside the server."""
    with sessions.begin() as session:
        user_id = a_user(session, user)
        a_member(session, user_id, role="submitter")
        if is_admin:
            session.execute(update(User).where(User.id == user_id).values(is_admin=True))
        project_id = None if project is None else a_project(session, project)
        expires_at = None if ends is None else datetime.now(UTC) + ends
        return create_token(session, user_id, "for a test", scopes, expires_at, project_id)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def id_of(client: TestClient, token: str) -> int:
    return client.get("/v1/me", headers=bearer(token)).json()["token"]["id"]


def revoke(client: TestClient, token_id: int, by: str) -> int:
    return client.post(f"/v1/tokens/{token_id}/revoke", headers=bearer(by)).status_code


def made_by(client: TestClient, token: str, **asked: object) -> Any:
    return client.post("/v1/tokens", json={"name": "new"} | asked, headers=bearer(token))


@pytest.mark.parametrize(
    ("own", "other", "status"),
    [
        (("read",), ("read",), 200),
        (("read",), ("read", "submit"), 403),
        (("read",), ("admin",), 403),
        (("read", "submit"), ("read",), 200),
        (("submit",), ("read",), 200),
        (("read", "submit"), ("admin",), 403),
        (("read", "submit"), ("worker",), 403),
        (("admin",), ("read", "submit"), 200),
        (("admin",), ("worker",), 403),
        (("read", "worker"), ("worker",), 200),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_token_revokes_none_that_can_do_more(
    anonymous: TestClient,
    sessions: Sessions,
    own: Sequence[str],
    other: Sequence[str],
    status: int,
) -> None:
    mine, theirs = a_text(sessions, *own), a_text(sessions, *other)
    with sessions() as session:
        newest = session.scalars(select(Token.id).order_by(Token.id.desc()).limit(1)).one()
    assert revoke(anonymous, newest, mine) == status
    with sessions() as session:
        is_over = session.scalars(select(Token).where(Token.id == newest)).one().revoked_at
    assert (is_over is not None) == (status == 200)
    assert theirs != mine


def test_a_token_of_one_project_revokes_none_of_all_projects(
    anonymous: TestClient, sessions: Sessions
) -> None:
    narrow = a_text(sessions, "read", "submit", project="default")
    beside = a_text(sessions, "read", project="default")
    elsewhere = a_text(sessions, "read", project="other")
    wide = a_text(sessions, "read")
    wide_id, beside_id = (id_of(anonymous, text) for text in (wide, beside))
    assert revoke(anonymous, wide_id, narrow) == 403
    assert revoke(anonymous, id_of(anonymous, elsewhere), narrow) == 403
    assert revoke(anonymous, beside_id, narrow) == 200
    assert revoke(anonymous, wide_id, wide) == 200  # itself


def test_the_refusal_names_what_is_lacking(anonymous: TestClient, sessions: Sessions) -> None:
    weak, wide = a_text(sessions, "read"), a_text(sessions, "read", "submit")
    path = f"/v1/tokens/{id_of(anonymous, wide)}/revoke"
    assert "submit" in anonymous.post(path, headers=bearer(weak)).json()["detail"]


def test_every_token_revokes_itself(anonymous: TestClient, sessions: Sessions) -> None:
    for scopes in (("read",), ("submit",), ("admin",)):
        text = a_text(sessions, *scopes)
        assert revoke(anonymous, id_of(anonymous, text), text) == 200
        assert anonymous.get("/v1/me", headers=bearer(text)).status_code == 401


def test_an_admin_of_the_server_revokes_every_token(
    anonymous: TestClient, sessions: Sessions
) -> None:
    theirs = a_text(sessions, "read", "worker", user="ben")
    theirs_id = id_of(anonymous, theirs)
    admin = a_text(sessions, "admin", user="root", is_admin=True)
    reading = a_text(sessions, "read", user="root")
    assert revoke(anonymous, theirs_id, reading) == 404  # an admin's token that only reads is none
    assert revoke(anonymous, theirs_id, admin) == 200


@pytest.mark.parametrize("days", [None, 1, 9, 90, 365], ids=str)
def test_a_token_makes_none_that_outlasts_it(
    anonymous: TestClient, sessions: Sessions, days: int | None
) -> None:
    own = a_text(sessions, "read", ends=SOON)
    asked = {} if days is None else {"expires_in_days": days}
    answer = made_by(anonymous, own, scopes=["read"], **asked)
    assert answer.status_code == 201
    ends = datetime.fromisoformat(answer.json()["expires_at"]) - datetime.now(UTC)
    wanted = min(SOON, timedelta(days=90 if days is None else days))
    assert abs(ends - wanted) < timedelta(minutes=10)
    assert ends <= SOON


def test_who_makes_tokens_by_tokens_gains_no_time(
    anonymous: TestClient, sessions: Sessions
) -> None:
    own = a_text(sessions, "read", ends=SOON)
    last = own
    for _ in range(3):
        last = made_by(anonymous, last, scopes=["read"], expires_in_days=365).json()["token"]
    with sessions() as session:
        first, *_, newest = session.scalars(select(Token.expires_at).order_by(Token.id)).all()
    assert first == newest
    assert last != own


def test_an_admins_token_that_ends_makes_none_for_good(
    anonymous: TestClient, sessions: Sessions
) -> None:
    ending = a_text(sessions, "read", "admin", is_admin=True, ends=SOON)
    refused = made_by(anonymous, ending, scopes=["read"], expires_in_days=None)
    assert refused.status_code == 403
    assert "expires" in refused.json()["detail"]
    lasting = a_text(sessions, "read", "admin")
    assert made_by(anonymous, lasting, scopes=["read"], expires_in_days=None).status_code == 201


@pytest.mark.parametrize(
    ("scopes", "status"),
    [
        (("read",), 201),
        (("read", "submit"), 201),
        (("admin",), 201),
        (("read", "worker"), 403),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else str(value),
)
def test_an_admins_token_makes_none_with_scopes_that_it_has_not(
    anonymous: TestClient, sessions: Sessions, scopes: Sequence[str], status: int
) -> None:
    admin = a_text(sessions, "admin", is_admin=True)
    assert made_by(anonymous, admin, scopes=list(scopes)).status_code == status


def test_a_browsers_session_has_the_rights_of_its_token(
    anonymous: TestClient, sessions: Sessions
) -> None:
    own, wide = a_text(sessions, "read", ends=SOON), a_text(sessions, "read", "submit")
    wide_id = id_of(anonymous, wide)
    assert anonymous.post("/login", data={"token": own}, headers=HERE).status_code == 303
    page = {**HERE, "Accept": "text/html"}
    assert anonymous.post(f"/tokens/{wide_id}/revoke", headers=page).status_code == 403
    assert anonymous.post(f"/v1/tokens/{wide_id}/revoke", headers=HERE).status_code == 403
    made = anonymous.post(
        "/tokens", data={"name": "mine", "scope": ["read"], "days": "365"}, headers=page
    )
    assert made.status_code == 201
    with sessions() as session:
        ends = session.scalars(select(Token.expires_at).where(Token.name == "mine")).one()
    assert ends is not None
    assert ends <= datetime.now(UTC) + SOON


@pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
def test_a_token_that_has_just_ended_makes_no_other(sessions: Sessions, column: str) -> None:
    """The gate may have let it in a moment before."""
    own = a_text(sessions, "read", "submit")
    with sessions.begin() as session:
        principal = authenticate(session, own)
        found = access_of(session, principal)
    with sessions.begin() as session:
        session.execute(update(Token).values({column: func.clock_timestamp()}))
    with sessions.begin() as session, pytest.raises(NotAuthorised):
        issued_tokens.create(session, principal, found, NewToken(name="new"))


def test_only_what_changes_rights_makes_the_server_look_everybody_up_again(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[int] = []
    monkeypatch.setattr(Admissions, "forget", lambda _: forgotten.append(1))
    nobody = {"Authorization": "Bearer wrong"}
    for refused in ("/v1/tokens", "/logout"):
        assert api.post(refused, json={}, headers=nobody).status_code >= 400
    assert forgotten == []
    assert api.get("/v1/tokens").status_code == 200
    assert forgotten == []
    assert api.post("/v1/tokens", json={"name": "script"}).status_code == 201
    assert forgotten == [1]
