"""The pages of projects, users and the audit log, and one project in view."""

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_principal, a_project, a_token, a_user

from adaptlab_api.app import create_app
from adaptlab_api.doors.gate import PROJECT_COOKIE, SESSION_COOKIE
from adaptlab_db.tables import Membership, User
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
SAME_SITE = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
SignIn = Callable[..., TestClient]


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), follow_redirects=False, headers=SAME_SITE) as made:
        yield made


@pytest.fixture
def sign_in(client: TestClient, sessions: Sessions) -> SignIn:
    """Returns the browser of somebody with a role in `default`."""

    def signed_in(name: str, role: str, *scopes: str) -> TestClient:
        with sessions.begin() as session:
            user_id = a_user(session, name)
            session.query(Membership).filter_by(user_id=user_id).update({"role": role})
            principal = a_principal(session, name, scopes or ("read", "submit"))
            cookie = tokens.open_browser_session(session, principal)
        client.cookies.set(SESSION_COOKIE, cookie)
        return client

    return signed_in


@pytest.fixture
def admin(sign_in: SignIn) -> TestClient:
    """The browser of an admin of the server."""
    return sign_in("root", "admin", "read", "submit", "admin")


def role_of(sessions: Sessions, user: str, project: str = "default") -> str | None:
    with sessions.begin() as session:
        mine = select(Membership.role).join(User, User.id == Membership.user_id)
        named = mine.where(User.name == user, Membership.project_id == a_project(session, project))
        return session.scalars(named).one_or_none()


def fault(answer: Any) -> str:
    found = re.search(r'id="fault">(.*?)</div>', answer.text, re.DOTALL)
    return html.unescape(found[1]) if found else ""


def test_an_admin_creates_a_project_and_manages_its_members(
    admin: TestClient, sessions: Sessions
) -> None:
    made = admin.post("/projects", data={"name": "vision"})
    assert (made.status_code, made.headers["location"]) == (303, "/projects/vision")
    assert admin.post("/users", data={"name": "grace"}).status_code == 303
    place = "/projects/vision/members"
    assert admin.post(place, data={"user": "grace", "role": "reader"}).status_code == 303
    assert role_of(sessions, "grace", "vision") == "reader"
    assert admin.post(place, data={"user": "grace", "role": "operator"}).status_code == 303
    assert role_of(sessions, "grace", "vision") == "operator"
    assert "grace" in admin.get("/projects/vision").text
    assert admin.post(f"{place}/grace/remove").headers["location"] == "/projects/vision"
    assert role_of(sessions, "grace", "vision") is None


REFUSED_FORMS: list[Any] = [
    ("/projects", {"name": "Not a name"}, 422, "Name: "),
    ("/projects", {"name": "default"}, 409, "already exists"),
    ("/projects/default/members", {"user": "nobody", "role": "reader"}, 404, "User: there is"),
    ("/projects/default/members", {"user": "root", "role": "god"}, 422, "Role: "),
    ("/users", {"name": "root"}, 409, "already exists"),
    ("/users", {"name": ""}, 422, "Name: "),
    ("/users/root", {"active": "no"}, 409, "You cannot deactivate yourself"),
    ("/users/nobody", {"active": "no"}, 404, "User: there is no user"),
]


def test_a_refused_form_says_why(admin: TestClient) -> None:
    for path, data, status, said in REFUSED_FORMS:
        answer = admin.post(path, data=data)
        assert answer.status_code == status
        assert said in fault(answer)


def test_an_admin_of_a_project_manages_that_one_only(sign_in: SignIn, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_user(session, "grace")
        a_project(session, "elsewhere")
    browser = sign_in("ada", "admin", "read", "submit", "admin")
    with sessions.begin() as session:
        session.query(User).filter_by(name="ada").update({"is_admin": False})
    moved = browser.post("/projects/default/members", data={"user": "grace", "role": "admin"})
    assert moved.status_code == 303
    assert role_of(sessions, "grace") == "admin"
    elsewhere = "/projects/elsewhere"
    assert browser.get(elsewhere).status_code == 404
    refused = browser.post(f"{elsewhere}/members", data={"user": "ada", "role": "admin"})
    assert refused.status_code == 404
    assert browser.post(f"{elsewhere}/members/ada/remove").status_code == 404
    assert browser.post("/projects", data={"name": "mine"}).status_code == 403
    assert "elsewhere" not in browser.get("/projects").text


@pytest.mark.parametrize("role", ["reader", "submitter", "operator"])
def test_other_members_see_the_members_and_change_none(
    sign_in: SignIn, sessions: Sessions, role: str
) -> None:
    with sessions.begin() as session:
        a_user(session, "grace")
    browser = sign_in("ada", role)
    page = browser.get("/projects/default")
    assert "grace" in page.text
    assert "/members" not in page.text
    place = "/projects/default/members"
    assert browser.post(place, data={"user": "ada", "role": "admin"}).status_code == 403
    assert browser.post(f"{place}/grace/remove").status_code == 403
    assert (role_of(sessions, "ada"), role_of(sessions, "grace")) == (role, "operator")
    for closed in ("/users", "/audit"):
        assert browser.get(closed).status_code == 403
        assert f'href="{closed}"' not in browser.get("/projects").text


def test_users_are_switched_and_the_log_says_so(admin: TestClient, sessions: Sessions) -> None:
    admin.post("/users", data={"name": "grace", "admin": "yes"})
    assert admin.post("/users/grace", data={"admin": "no"}).status_code == 303
    assert admin.post("/users/grace", data={"active": "no"}).status_code == 303
    page = admin.get("/users").text
    assert "Reactivate: grace" in page
    assert "Make admin: grace" in page
    with sessions() as session:
        assert session.scalars(select(User.deactivated_at).where(User.name == "grace")).one()
    log = admin.get("/audit?action=update_user").text
    assert log.count(">update_user<") == 2
    assert "create_user" not in log.replace('placeholder="create_token"', "")


def test_the_log_is_filtered_by_time(admin: TestClient) -> None:
    admin.post("/users", data={"name": "grace"})
    for address, is_there in (
        ("/audit?since=2026-01-01T00:00", True),
        ("/audit?until=2026-01-01T00:00", False),
        ("/audit?since=2026-01-01T00:00:00Z&actor=root", True),
        ("/audit?actor=nobody", False),
    ):
        page = admin.get(address)
        assert page.status_code == 200
        assert (">create_user<" in page.text) is is_there
    assert admin.get("/audit?since=yesterday").status_code == 400
    assert admin.get("/audit?page_token=x").status_code == 400


def test_a_browser_can_show_one_project_only(admin: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        here, there = a_job(session), a_job(session, project="vision")
    assert 'title="Project">vision<' in admin.get("/").text
    chosen = admin.post("/projects/shown", data={"project": "vision"})
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/")
    page = admin.get("/").text
    assert f"/jobs/{there}" in page
    assert f"/jobs/{here}" not in page
    assert "<bdi>vision</bdi>" in page
    assert [one["id"] for one in admin.get("/v1/jobs").json()["data"]] == [str(there)]
    assert "/projects/default" in admin.get("/projects").text
    assert admin.get("/?project=default").text.count(f"/jobs/{here}")
    admin.post("/projects/shown", data={"project": ""})
    assert f"/jobs/{here}" in admin.get("/").text


def test_a_choice_is_no_permission(sign_in: SignIn, sessions: Sessions) -> None:
    with sessions.begin() as session:
        here, there = a_job(session), a_job(session, project="vision")
    browser = sign_in("ada", "reader")
    assert browser.post("/projects/shown", data={"project": "vision"}).status_code == 404
    browser.cookies.set(PROJECT_COOKIE, "vision")
    page = browser.get("/")
    assert page.status_code == 200
    assert f"/jobs/{here}" in page.text
    assert f"/jobs/{there}" not in page.text
    browser.cookies.set(PROJECT_COOKIE, "%00'--")
    assert browser.get("/").status_code == 200
    assert (
        browser.post(
            "/projects/shown", data={}, headers={"Sec-Fetch-Site": "cross-site"}
        ).status_code
        == 403
    )


def test_a_token_takes_no_notice_of_the_choice(admin: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        jobs = {str(a_job(session)), str(a_job(session, project="vision"))}
        header = {"Authorization": f"Bearer {a_token(session)}"}
    admin.cookies.set(PROJECT_COOKIE, "vision")
    assert {one["id"] for one in admin.get("/v1/jobs", headers=header).json()["data"]} == jobs
