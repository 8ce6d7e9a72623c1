"""What a browser is shown where a program gets a problem document."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.pages.submitting import HERE, sign_in, somebody

from adaptlab_api.app import create_app
from adaptlab_api.pages.rendering.problem_pages import wants_page
from adaptlab_services.settings import Settings

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
NOBODYS = UUID(int=7)
NOWHERE = "/nowhere/<script>"


@pytest.fixture
def browser(settings: Settings) -> Iterator[TestClient]:
    app = create_app(settings)
    with TestClient(
        app, follow_redirects=False, headers=BROWSER, raise_server_exceptions=False
    ) as made:
        yield made


@pytest.fixture
def signed_in(browser: TestClient, token: str) -> TestClient:
    return sign_in(browser, token)


def a_page(answer: Any, status: int) -> str:  # Any: whose Response the client has is its own matter
    """The text of an answer, which is a page of the house with this status."""
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src")
    assert answer.headers["cache-control"] == "no-store"
    text: str = answer.text
    assert "<h1>" in text
    assert "urn:adaptlab" not in text
    assert "<script>" not in text
    return text


def test_an_unknown_address_is_a_page_with_the_way_on(signed_in: TestClient) -> None:
    page = a_page(signed_in.get(NOWHERE), 404)
    assert "There is nothing at this address" in page
    assert 'aria-label="Pages"' in page
    assert '<a href="/">All jobs</a>' in page
    assert '<a href="/studies">All studies</a>' in page
    assert 'action="/search"' in page


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", f"/jobs/{NOBODYS}/cancel", 405, "This address supports POST"),
        ("GET", "/jobs/1/attention?layer=x", 422, "layer must be a whole number."),
        ("GET", f"/v1/jobs/{NOBODYS}", 404, "job"),
        ("POST", "/tokens", 415, "x-www-form-urlencoded"),
    ],
)
def test_every_refusal_of_a_browser_is_a_page(
    signed_in: TestClient, method: str, path: str, status: int, said: str
) -> None:
    assert said in a_page(signed_in.request(method, path, headers=HERE), status)


def test_a_refusal_from_another_site_is_a_page_and_stands_in_the_log(
    signed_in: TestClient,
) -> None:
    answer = signed_in.post("/tokens", headers={"Sec-Fetch-Site": "cross-site"})
    assert "another site" in a_page(answer, 403)
    assert answer.headers["x-request-id"]


def test_who_lacks_the_role_reads_why(
    browser: TestClient, sessions: sessionmaker[Session], token: str
) -> None:
    sign_in(browser, somebody(sessions, {"default": "reader"}, ("read",)))
    answer = browser.post("/recommend", data={"task": "x"}, headers=HERE)
    assert "scope `submit`" in a_page(answer, 403)


def test_without_a_session_nothing_is_told(browser: TestClient) -> None:
    assert browser.get(NOWHERE).headers["location"].startswith("/login?next=")
    page = a_page(browser.post("/jobs/new", data={"a": "b"}, headers=HERE), 401)
    assert 'href="/login"' in page
    assert 'aria-label="Pages"' not in page


def test_a_failure_of_the_server_is_a_page_that_tells_nothing(
    signed_in: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("adaptlab_api.pages.jobs.routes.job_list", fail)
    page = a_page(signed_in.get("/"), 500)
    assert "if it fails again, see the server" in page
    assert "secret" not in page


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html;q=0.5, application/json"])
def test_programs_get_the_document(signed_in: TestClient, accept: str) -> None:
    for path in (NOWHERE, f"/v1/jobs/{NOBODYS}"):
        answer = signed_in.get(path, headers={"Accept": accept})
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == 404


@pytest.mark.parametrize(
    ("accept", "page"),
    [
        ("", False),
        ("text/html", True),
        ("TEXT/HTML; q=1.0, */*;q=0.9", True),
        ("text/html;q=0", False),
        ("text/html;q=x", False),
        ("text/html, application/problem+json", False),
        ("text/html, application/*;q=0.4", True),
        ("text/*", False),
        ("application/xhtml+xml, */*;q=0.1", False),
    ],
)
def test_a_page_is_wanted_by_who_prefers_it_to_a_document(accept: str, page: bool) -> None:
    assert wants_page(accept) is page
