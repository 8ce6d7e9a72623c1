"""A browser without scripts, which sends the fields of a form."""

import html
import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_member, a_project, a_user

from adaptlab_api.app import create_app
from adaptlab_db.tables import Membership
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]

HERE = {"Sec-Fetch-Site": "same-origin"}
Fields = dict[str, list[str]]


@contextmanager
def a_browser(settings: Settings) -> Generator[TestClient]:
    app = create_app(settings)
    with TestClient(app, follow_redirects=False, headers={"Accept": "text/html"}) as made:
        yield made


@pytest.fixture
def browser(settings: Settings) -> Iterator[TestClient]:
    """A browser that has not signed in."""
    with a_browser(settings) as made:
        yield made


@pytest.fixture
def admin(browser: TestClient, token: str, base: None) -> TestClient:
    """The browser of the server's admin, where there is a base model."""
    return sign_in(browser, token)


@pytest.fixture(scope="module")
def shared_admin(
    shared_settings: Settings, shared_sessions: Sessions, shared_token: str
) -> Iterator[TestClient]:
    """The same on the module's own database, for tests that submit nothing."""
    with shared_sessions.begin() as session:
        a_base_model(session)
    with a_browser(shared_settings) as made:
        yield sign_in(made, shared_token)


def sign_in(browser: TestClient, token: str) -> TestClient:
    assert browser.post("/login", data={"token": token}, headers=HERE).status_code == 303
    return browser


def somebody(sessions: Sessions, roles: dict[str, str], scopes: tuple[str, ...]) -> str:
    """The token of somebody with these roles in projects, and no others."""
    with sessions.begin() as session:
        for name in roles:
            if name != "default":
                a_project(session, name)
        user = a_user(session, "ada")
        session.execute(delete(Membership).where(Membership.user_id == user))
        for name, role in roles.items():
            a_member(session, user, name, role)
        return tokens.create_token(session, user, "laptop", scopes)


class _Fields(HTMLParser):
    """What a browser would send of the form with a preview."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Fields = {}
        self._inside = False
        self._select: str | None = None
        self._text: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = "data-preview" in at
        if not self._inside:
            return
        if tag == "input" and (at.get("type") != "checkbox" or "checked" in at):
            self.found.setdefault(at["name"], []).append(at.get("value", ""))
        elif tag == "select":
            self._select = at["name"]
        elif tag == "option" and self._select is not None:
            # The first is chosen, until one says that it is.
            if "selected" in at or self._select not in self.found:
                self.found[self._select] = [at.get("value", "")]
        elif tag == "textarea":
            self._text = at["name"]
            self.found[self._text] = [""]

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = None
        elif tag == "textarea":
            if self._text is not None:
                self.found[self._text] = [self.found[self._text][0].removeprefix("\n")]
            self._text = None
        elif tag == "form":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self.found[self._text][0] += data


def fields_of(page: str) -> Fields:
    """What stands in the form of a page."""
    parser = _Fields()
    parser.feed(page)
    return parser.found


def opened(client: TestClient, path: str, changes: Mapping[str, Any] | None = None) -> Fields:
    """The form at an address, with some fields otherwise."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return changed(fields_of(answer.text), changes)


def changed(fields: Mapping[str, list[str]], changes: Mapping[str, Any] | None = None) -> Fields:
    """The same fields, some with another text or other texts."""
    given = {
        name: [text] if isinstance(text, str) else text for name, text in (changes or {}).items()
    }
    return {**fields, **given}


def sent(
    client: TestClient, path: str, fields: Mapping[str, list[str]]
) -> Any:  # whose Response the client has is its own matter
    """Send a form, or its preview, from a page of this server."""
    return client.post(path, data={**fields}, headers=HERE)


def shown_json(page: str) -> dict[str, Any]:
    """The spec that the page says it will send."""
    (found,) = re.findall(r'id="text-json"[^>]*>(.*?)</code>', page, re.DOTALL)
    return json.loads(html.unescape(found))


def fault_at(page: str, pointer: str) -> str:
    """What stands beside a field, as text."""
    id_ = "at" + pointer.replace("/-", "/more").replace("/", "-")
    (found,) = re.findall(rf'id="fault-{id_}" data-answer>(.*?)</div>', page, re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", found)).strip()


def uses(page: str) -> list[str]:
    """What the buttons send that take a value over."""
    return [html.unescape(one) for one in re.findall(r'name="use" value="([^"]*)"', page)]


def answered(page: str) -> str:
    """What is said of it, as text."""
    (found,) = re.findall(r'id="answer" data-answer>(.*?)<div class="submit-bar"', page, re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", found)))
