"""The form that fetches a model from the hub, and the table of fetches."""

import html
import re

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.limited import a_server
from tests.pages.reading import text_of
from tests.pages.submitting import HERE
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser

from adaptlab_db.tables import HubFetch
from adaptlab_services.settings import Settings

PAGE = "/base-models"
FORM = {"source": "lab/tiny@v1", "name": "tiny"}


@pytest.fixture
def settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a server that may fetch, and whose fetcher does not run."""
    monkeypatch.setattr("adaptlab_services.hub.fetcher.Fetcher.start", lambda _: None)
    return settings.model_copy(update={"hub": "on"})


def post(client: TestClient, path: str, **fields: str) -> int:
    client.headers.update(HERE)
    return client.post(path, data=fields, follow_redirects=False).status_code


def test_a_fetch_is_asked_for_cancelled_and_tried_again(
    admin: TestClient, sessions: sessionmaker[Session]
) -> None:
    assert post(admin, f"{PAGE}/fetches", **FORM) == 303
    with sessions.begin() as session:
        session.execute(update(HubFetch).values(error="<b>no</b>", code="absent"))
    page = admin.get(PAGE).text
    assert "hub:lab/tiny@v1" in html.unescape(text_of(page))
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    (cancel,) = set(re.findall(rf"{PAGE}/fetches/[0-9a-f-]+/cancel", page))
    assert post(admin, cancel) == 303
    assert cancel not in admin.get(PAGE).text
    assert post(admin, cancel.replace("cancel", "retry")) == 303
    (fetch,) = admin.get("/v1/hub-fetches").json()["data"]
    assert fetch["imports"]


def test_a_split_of_a_dataset_is_fetched_from_its_page(admin: TestClient) -> None:
    form = {"source": "lab/reviews", "name": "reviews", "config": "plain", "split": "test"}
    assert post(admin, "/datasets/fetches", **form) == 303
    page = text_of(admin.get("/datasets").text)
    assert "hub:lab/reviews@main#plain/test" in html.unescape(page)
    (fetch,) = admin.get("/v1/hub-fetches").json()["data"]
    assert (fetch["kind"], fetch["imports"]) == ("dataset", False)
    wrong = admin.post("/datasets/fetches", data=form | {"split": "a b"})
    assert (wrong.status_code, 'value="a b"' in wrong.text) == (422, True)
    assert "hub:lab/reviews" not in text_of(admin.get(PAGE).text)


def test_a_wrong_name_is_shown_with_what_was_typed(admin: TestClient) -> None:
    admin.headers.update(HERE)
    answer = admin.post(f"{PAGE}/fetches", data={"source": "../<x>", "name": "tiny"})
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert 'value="../&lt;x&gt;"' in answer.text
    assert "is not a name on the hub" in html.unescape(text_of(answer.text))
    assert post(admin, f"{PAGE}/fetches/6f1c2b3a-0000-4000-8000-000000000000/cancel") == 404


def test_a_closed_server_shows_no_form(settings: Settings, token: str) -> None:
    with a_server(settings, token, hub="off") as client:
        assert 'id="fetch"' not in client.get(PAGE).text
    with a_server(settings, token) as client:
        assert 'id="fetch"' in client.get(PAGE).text
