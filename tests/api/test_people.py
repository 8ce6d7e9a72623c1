"""Tokens, users, projects and the audit log over HTTP."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import bearer, entries, somebody
from tests.making import a_pretrain_document, a_project, a_user

from adaptlab_api.doors.gate import SESSION_COOKIE
from adaptlab_db.tables import AuditEntry

Sessions = sessionmaker[Session]


def days_left(token: Mapping[str, Any]) -> float:
    ends = datetime.fromisoformat(token["expires_at"])
    return (ends - datetime.now(UTC)) / timedelta(days=1)


def test_a_token_is_shown_once(api: TestClient) -> None:
    made = api.post("/v1/tokens", json={"name": "script"})
    assert made.status_code == 201
    assert days_left(made.json()) == pytest.approx(90, abs=0.1)
    assert made.headers["cache-control"] == "no-store"
    assert made.json()["token"] not in api.get("/v1/tokens").text


ASKED: list[Any] = [
    ({"name": "long", "expires_in_days": 366}, 422),
    ({"name": "year", "expires_in_days": 365}, 201),
    ({"name": "none", "scopes": []}, 422),
    ({"name": "", "scopes": ["read"]}, 422),
    ({"name": "god", "scopes": ["root"]}, 422),
    ({"name": "good", "expires_in_days": None}, 403),
    ({"name": "hers", "user": "bert"}, 403),
    ({"name": "loud", "scopes": ["read", "worker"]}, 403),
    ({"name": "there", "project": "elsewhere"}, 404),
    ({"name": "here", "project": "default"}, 201),
    ({"name": "mine", "user": "asker"}, 201),
]


def test_nobody_makes_more_of_a_token_than_they_have(
    anonymous: TestClient, sessions: Sessions
) -> None:
    for asked, status in ASKED:
        with sessions.begin() as session:
            a_user(session, "bert")
            a_project(session, "elsewhere")
        header = somebody(sessions, "asker")
        assert anonymous.post("/v1/tokens", json=asked, headers=header).status_code == status


def test_a_user_is_created_once_and_can_be_shut_out_and_let_in(api: TestClient) -> None:
    assert api.post("/v1/users", json={"name": "bert"}).status_code == 201
    assert api.post("/v1/users", json={"name": "bert"}).status_code == 409
    header = bearer_of_bert(api)
    me = api.get("/v1/me", headers=header).json()
    assert (me["user"], me["is_admin"], me["projects"]) == ("bert", False, [])
    assert api.patch("/v1/users/bert", json={"is_active": False}).json()["is_active"] is False
    assert api.get("/v1/me", headers=header).status_code == 401
    assert api.patch("/v1/users/bert", json={"is_active": True}).status_code == 200
    assert api.get("/v1/me", headers=header).status_code == 200


def bearer_of_bert(api: TestClient) -> dict[str, str]:
    return bearer(api.post("/v1/tokens", json={"name": "first", "user": "bert"}).json()["token"])


def test_an_admin_cannot_shut_out_the_last_one(api: TestClient) -> None:
    for changes in ({"is_active": False}, {"is_admin": False}):
        assert api.patch("/v1/users/ada", json=changes).status_code == 409


def test_what_was_done_and_what_was_refused_is_written_down(
    api: TestClient, sessions: Sessions
) -> None:
    made = api.post("/v1/jobs", json=a_pretrain_document())
    job_id = made.json()["id"]
    api.post(f"/v1/jobs/{job_id}/cancel")
    reading = somebody(sessions, "eve", "reader")
    api.post(f"/v1/jobs/{job_id}/retry", headers=reading)
    api.post("/v1/jobs", json={"kind": "nonsense"})  # changes nothing and is no refusal
    api.get("/v1/jobs")
    told = [(one["actor"], one["action"], one["object"], one["status"]) for one in entries(api)]
    assert told == [
        ("eve", "retry_job", job_id, 403),
        ("ada", "cancel_job", job_id, 200),
        ("ada", "create_job", job_id, 201),
    ]
    first = entries(api, f"object={job_id}&action=create_job&actor=ada")
    assert [one["status"] for one in first] == [201]
    assert first[0]["address"] == "testclient"
    assert first[0]["token_id"] is not None
    assert made.headers["x-request-id"] == first[0]["request_id"]
    assert entries(api, "until=2001-01-01T00:00:00Z") == []
    assert len(entries(api, "since=2001-01-01T00:00:00Z")) == 3


def test_the_audit_log_comes_in_pages(api: TestClient) -> None:
    for number in range(3):
        api.post("/v1/projects", json={"name": f"p{number}"})
    first = api.get("/v1/audit?page_size=2").json()
    rest = api.get("/v1/audit", params={"page_token": first["next_page_token"]}).json()
    assert [one["object"] for one in first["data"] + rest["data"]] == ["p2", "p1", "p0"]
    assert rest["next_page_token"] is None


def test_signing_in_and_out_and_failing_to_is_written_down(
    api: TestClient, sessions: Sessions, token: str
) -> None:
    del api.headers["Authorization"]
    assert api.post("/login", data={"token": token}).status_code == 303
    assert api.cookies.get(SESSION_COOKIE)
    api.post("/logout", headers={"Sec-Fetch-Site": "same-origin"})
    api.post("/login", data={"token": "al_wrong"})
    api.get("/v1/jobs", headers={"Authorization": "Bearer al_wrong"})
    api.cookies.clear()
    api.get("/v1/jobs")  # nobody tried anything
    told = [(one["actor"], one["action"], one["object"]) for one in entries_of(api, token)]
    assert told == [
        (None, "failed_authentication", "/v1/jobs"),
        (None, "failed_authentication", "/login"),
        ("ada", "logout", None),
        ("ada", "login", None),
    ]
    with sessions() as session:
        everything = str(
            session.execute(text("SELECT audit_entries::text FROM audit_entries")).all()
        )
    assert token not in everything
    assert "al_wrong" not in everything


def entries_of(api: TestClient, token: str) -> list[dict[str, Any]]:
    return api.get("/v1/audit", headers=bearer(token)).json()["data"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entries SET actor = 'nobody'",
        "DELETE FROM audit_entries",
        "TRUNCATE audit_entries",
        "DELETE FROM audit_entries WHERE false",
    ],
)
def test_nothing_changes_the_audit_log(api: TestClient, sessions: Sessions, statement: str) -> None:
    api.post("/v1/projects", json={"name": "one"})
    with sessions.begin() as session, pytest.raises(DBAPIError, match="append-only"):
        session.execute(text(statement))
    with sessions() as session:
        assert session.scalars(select(AuditEntry.object)).all() == ["one"]


def test_an_action_stands_though_it_could_not_be_written_down(
    api: TestClient, sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE audit_entries ADD CHECK (action <> 'create_project')"))
    assert api.post("/v1/projects", json={"name": "one"}).status_code == 201
    assert "create_project" in caplog.text


def test_a_browser_session_ends_with_its_token(
    api: TestClient, sessions: Sessions, token: str
) -> None:
    made = api.post("/v1/tokens", json={"name": "browser"}).json()
    del api.headers["Authorization"]
    assert api.post("/login", data={"token": made["token"]}).status_code == 303
    page = {"Accept": "text/html"}
    assert api.get("/", headers=page).status_code == 200
    api.post(f"/v1/tokens/{made['id']}/revoke", headers=bearer(token))
    assert api.get("/", headers=page).status_code == 303
