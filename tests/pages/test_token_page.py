"""The page of tokens: shown once, listed, revoked, and permissions."""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_member, a_project, a_user
from tests.pages.visitors import HOSTILE, Visitor, overflows_nowhere

from adaptlab_api.app import create_app
from adaptlab_db.tables import AuditEntry, Token, User
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
HERE = {"Sec-Fetch-Site": "same-origin"}
FORM = {"name": "nightly", "scope": ["read"], "project": "", "days": "30"}


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    app = create_app(settings)
    with TestClient(app, follow_redirects=False, headers={"Accept": "text/html"}) as made:
        yield made


def sign_in(client: TestClient, token: str) -> TestClient:
    assert client.post("/login", data={"token": token}, headers=HERE).status_code == 303
    return client


@pytest.fixture
def admin(client: TestClient, token: str) -> TestClient:
    """The browser of the server's admin."""
    return sign_in(client, token)


@pytest.fixture
def ada(client: TestClient, sessions: Sessions) -> TestClient:
    """The browser of a user whose token only reads and submits."""
    with sessions.begin() as session:
        text = tokens.create_token(session, a_user(session, "ada"), "laptop", ("read", "submit"))
    return sign_in(client, text)


def make(client: TestClient, **changes: Any) -> Any:
    return client.post("/tokens", data=FORM | changes, headers=HERE)


def text_of(answer: Any) -> str:
    """The token on a page, which must be there exactly once."""
    (found,) = re.findall(r"al_[0-9A-Za-z]{43}_[0-9a-z]{7}", answer.text)
    return found


def faults(answer: Any) -> str:
    return html.unescape("".join(re.findall(r'id="fault">(.*?)</div>', answer.text, re.DOTALL)))


def test_a_token_is_made_and_shown_this_once(ada: TestClient, sessions: Sessions) -> None:
    made = make(ada)
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    text = text_of(made)
    assert not any(text in value for value in made.headers.values())
    assert text not in ada.get("/tokens").text
    bearer = {"Authorization": f"Bearer {text}"}
    (found,) = (one for one in ada.get("/v1/tokens").json()["data"] if one["name"] == "nightly")
    assert (found["scopes"], found["project"], found["state"]) == (["read"], None, "valid")
    assert ada.get("/v1/jobs", headers=bearer).status_code == 200
    assert ada.post("/v1/jobs", headers=bearer, json={}).status_code == 403  # reads only
    with sessions.begin() as session:
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(20)).all()
        noted = [(one.action, one.object) for one in entry]
        assert ("create_token", str(found["id"])) in noted
        assert session.scalars(select(Token.digest).where(Token.id == found["id"])).one() != text


def test_a_revoked_token_is_refused_and_the_list_says_so(ada: TestClient) -> None:
    text = text_of(make(ada, project="default"))
    (found,) = (one for one in ada.get("/v1/tokens").json()["data"] if one["name"] == "nightly")
    assert found["project"] == "default"
    address = f"/tokens/{found['id']}/revoke"
    assert address in ada.get("/tokens").text
    answer = ada.post(address, headers=HERE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/tokens")
    page = ada.get("/tokens").text
    assert address not in page
    assert 'class="state outlined"' in page
    assert ada.get("/v1/jobs", headers={"Authorization": f"Bearer {text}"}).status_code == 401


def test_revoking_the_own_token_signs_out(ada: TestClient) -> None:
    (own,) = ada.get("/v1/tokens").json()["data"]
    assert ada.post(f"/tokens/{own['id']}/revoke", headers=HERE).status_code == 303
    assert ada.get("/tokens").headers["location"] == "/login?next=/tokens"


NOT_GRANTED: list[Any] = [
    ({"name": ""}, 422, "Name"),
    ({"name": "x" * 65}, 422, "Name"),
    ({"name": "a\0b"}, 422, "U+0000"),
    ({"scope": []}, 422, "Scopes"),
    ({"scope": ["root"]}, 422, "Scopes"),
    ({"scope": ["admin"]}, 403, "scopes admin"),
    ({"days": "366"}, 422, "Days"),
    ({"days": "0"}, 422, "Days"),
    ({"days": ""}, 422, "Days"),
    ({"days": "9" * 999}, 422, "Days"),
    ({"days": "1.5"}, 422, "Days"),
    ({"forever": "1"}, 403, "never expires"),
    ({"project": "elsewhere"}, 404, "Project"),
    ({"project": "No Name"}, 422, "Project"),
]


def test_a_form_that_cannot_be_granted_says_why_and_keeps_what_was_typed(ada: TestClient) -> None:
    for changes, status, named in NOT_GRANTED:
        answer = make(ada, **changes)
        assert answer.status_code == status, faults(answer) or answer.text
        assert named in faults(answer)
        assert "al_" not in answer.text
        assert len(ada.get("/v1/tokens").json()["data"]) == 1
        if changes.keys() == {"days"} and len(changes["days"]) < 9:
            assert 'value="nightly"' in answer.text


def test_a_body_that_is_no_small_form_is_refused(ada: TestClient) -> None:
    assert ada.post("/tokens", json=FORM, headers=HERE).status_code == 415
    assert make(ada, name="x" * 5000).status_code == 413
    assert make(ada, **{f"f{number}": "1" for number in range(9)}).status_code == 400


def test_others_tokens_are_seen_and_revoked_by_admins_only(
    client: TestClient, token: str, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        texts = [
            tokens.create_token(session, a_user(session, name), f"of-{name}", ("read",))
            for name in ("ada", "bert")
        ]
        theirs = session.scalars(select(Token.id).where(Token.name == "of-bert")).one()
    sign_in(client, texts[0])
    page = client.get("/tokens").text
    assert "of-ada" in page
    assert "of-bert" not in page
    assert "Owner" not in page
    assert client.post(f"/tokens/{theirs}/revoke", headers=HERE).status_code == 404
    assert client.get("/v1/jobs", headers={"Authorization": f"Bearer {texts[1]}"}).is_success
    sign_in(client, token)
    page = client.get("/tokens").text
    assert "of-bert" in page
    assert "Owner" in page
    assert client.post(f"/tokens/{theirs}/revoke", headers=HERE).status_code == 303
    assert client.get("/v1/jobs", headers={"Authorization": f"Bearer {texts[1]}"}).is_client_error


def test_an_admin_makes_a_token_for_good(admin: TestClient) -> None:
    assert make(admin, forever="1", days="").status_code == 201
    found = admin.get("/v1/tokens").json()["data"][0]
    assert (found["name"], found["expires_at"]) == ("nightly", None)


def test_a_token_of_one_project_offers_and_makes_no_other(
    client: TestClient, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        project = a_project(session, "vision")
        user = a_user(session, "ada")
        a_member(session, user, "vision")
        text = tokens.create_token(session, user, "of one", ("read",), None, project)
    sign_in(client, text)
    assert re.findall(r"<option[^>]*>([^<]*)", client.get("/tokens").text) == ["vision"]
    assert make(client, project="").status_code == 201
    assert client.get("/v1/tokens").json()["data"][0]["project"] == "vision"
    assert make(client, project="default").status_code == 404


def test_what_was_used_stands_beside_what_is_allowed(ada: TestClient, sessions: Sessions) -> None:
    def used() -> str:
        panel = ada.get("/tokens").text.partition('id="usage"')[2]
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", panel)).split())

    assert "Files 0 B no limit" in used()
    assert "Hours" not in used()
    quotas = {"max_queue_hours": {"gpu": 2.5, "cpu": 1e6}, "max_stored_bytes": 3 * 2**20}
    with sessions.begin() as session:
        session.execute(update(User).where(User.name == "ada").values(quotas))
    assert "Hours in the queue cpu 0 h 1,000,000 h" in used()
    assert "Hours in the queue gpu 0 h 2.5 h" in used()
    assert "Files 0 B 3.0 MiB" in used()


def test_a_long_list_is_walked(admin: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        user = a_user(session, "ada")
        for number in range(60):
            tokens.create_token(session, user, f"t{number:02}", ("read",))
    page = admin.get("/tokens").text
    assert "t59" in page
    assert "t00" not in page
    (older,) = re.findall(r'href="([^"]+)" rel="next"', page)
    assert "t00" in admin.get(html.unescape(older)).text
    assert admin.get("/tokens?page_token=x").status_code == 400


@pytest.mark.long("browser walks")
@pytest.mark.browser
def test_in_a_browser_a_token_is_made_copied_and_revoked(
    visitor: Visitor, sessions: Sessions
) -> None:
    page = visitor.page
    visitor.sign_in()
    page.get_by_role("link", name="Your tokens").click()
    page.get_by_label("Name").fill(HOSTILE[:64])
    page.get_by_role("button", name="Create token").click()
    secret = page.get_by_label("The new token")
    expect(secret).to_be_visible()
    assert page.url == visitor.server + "/tokens"
    text = secret.inner_text()
    secret.click()
    assert page.evaluate("getSelection().toString()") == text
    assert page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"
    assert page.title() != "owned"
    overflows_nowhere(page)
    page.goto(visitor.server + "/tokens")
    assert text not in page.content()
    with sessions.begin() as session:
        newest = session.scalars(select(Token.id).order_by(Token.id.desc()).limit(1)).one()
        session.execute(update(Token).where(Token.id == newest).values(name="W" * 64))
    page.goto(visitor.server + "/tokens")
    overflows_nowhere(page)
    visitor.agree()
    page.get_by_role("button", name="Revoke W").click()
    expect(page.locator(".state", has_text="revoked")).to_have_count(1)
    page.go_back()
    assert text not in page.content()
