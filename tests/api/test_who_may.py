"""Other methods, odd headers, browsers and faults on every route."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from starlette.websockets import WebSocketDisconnect
from tests.making import a_principal

from adaptlab_api.app import create_app
from adaptlab_api.doors.gate import PUBLIC_FOLDERS, PUBLIC_PATHS, SESSION_COOKIE
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
OF_NO_ROUTE = ("HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
SOMEWHERE = "00000000-0000-0000-0000-000000000000"


def test_a_method_that_a_route_has_not_is_closed_too(anonymous: TestClient) -> None:
    for path in ("/", "/v1/jobs", f"/v1/jobs/{SOMEWHERE}", "/docs", "/redoc", "/nowhere"):
        for method in OF_NO_ROUTE:
            answer = anonymous.request(method, path)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_only_health_and_signing_in_are_public(anonymous: TestClient) -> None:
    paths = {route.path for route in anonymous.app.routes}  # type: ignore[attr-defined]
    public = {path for path in paths if anonymous.get(path).status_code != 401}
    assert {path for path in public if not path.startswith(PUBLIC_FOLDERS)} == set(PUBLIC_PATHS)


NO_TOKENS: list[Any] = [
    "Bearer",
    "Bearer ",
    "Bearer x",
    "Bearer al_" + "0" * 43 + "_0000000",
    "Basic YWRhOmFkYQ==",
    "Negotiate x",
    "Bearer ä",
]


def test_what_is_no_token_opens_nothing(anonymous: TestClient) -> None:
    for header in NO_TOKENS:
        answer = anonymous.get("/v1/jobs", headers=[(b"Authorization", header.encode())])
        assert answer.status_code == 401


@pytest.fixture
def browser(anonymous: TestClient, sessions: Sessions) -> TestClient:
    """Somebody who signed in with a browser."""
    with sessions.begin() as session:
        cookie = tokens.open_browser_session(session, a_principal(session))
    anonymous.cookies.set(SESSION_COOKIE, cookie)
    return anonymous


def test_a_signed_in_browser_reads(browser: TestClient) -> None:
    assert browser.get("/v1/jobs").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 404),
        ({"Origin": "http://testserver"}, 404),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"}, 403),
        ({"Origin": "http://elsewhere.example"}, 403),
    ],
)
def test_a_browser_changes_things_from_our_own_pages(
    browser: TestClient, headers: dict[str, str], status: int
) -> None:
    answer = browser.post(f"/v1/jobs/{SOMEWHERE}/cancel", headers=headers)
    assert answer.status_code == status


def test_a_token_is_no_matter_of_origin(api: TestClient) -> None:
    answer = api.post(
        f"/v1/jobs/{SOMEWHERE}/cancel", headers={"Origin": "http://elsewhere.example"}
    )
    assert answer.status_code == 404


def test_a_browser_without_a_session_is_shown_the_way(anonymous: TestClient) -> None:
    answer = anonymous.get("/jobs/x?sample=1", headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=/jobs/x%3Fsample%3D1"


def test_there_is_no_websocket(anonymous: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), anonymous.websocket_connect("/v1/jobs"):
        pass


def test_a_database_that_is_away_is_said_to_be_away(settings: Settings) -> None:
    gone = settings.model_copy(
        update={"database_url": "postgresql+psycopg://nobody@127.0.0.1:9/none"}
    )
    with TestClient(create_app(gone), raise_server_exceptions=False) as client:
        bearer = {"Authorization": "Bearer al_" + "0" * 43 + "_0000000"}
        assert client.get("/healthz").json()["status"] == "ok"
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert ready.headers["retry-after"]
        assert ready.headers["content-type"] == "application/problem+json"
        assert "9" not in ready.json()["detail"].replace("2 seconds", "")
        assert client.get("/v1/jobs", headers=bearer).status_code == 401


def test_a_fault_of_the_server_tells_nothing(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("adaptlab_services.lifecycle.workers.recent", fail)
    answer = api.get("/v1/workers")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "hunter2" not in answer.text


def test_every_route_is_described_or_a_page(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    for route in api.app.routes:  # type: ignore[attr-defined]
        path = re.sub(r":[a-z]+}", "}", route.path)  # a document has no converters
        if path.startswith("/v1"):
            assert path in document["paths"], path
