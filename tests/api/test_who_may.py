"""Closed unless named: every route, every method, whoever asks."""

import re
from collections.abc import Iterator, Sequence

import pytest
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from starlette.websockets import WebSocketDisconnect
from tests.making import a_principal, a_token, an_adapt_document

from adaptlab_api.app import create_app
from adaptlab_api.gate import PUBLIC_FOLDER, PUBLIC_PATHS, SESSION_COOKIE
from adaptlab_db.tables import Token
from adaptlab_services import tokens
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
SOMEWHERE = "00000000-0000-0000-0000-000000000000"


def addresses(client: TestClient) -> Sequence[str]:
    """An address of every route of the application."""
    return sorted(set(_addresses(client)))


def _addresses(client: TestClient) -> Iterator[str]:
    for context in iter_route_contexts(client.app.routes):  # type: ignore[attr-defined]
        path = context.path or "/"
        for part in ("{job_id}", "{map_id}", "{evaluation_id}", "{checkpoint_id}", "{name}"):
            path = path.replace(part, SOMEWHERE if part == "{job_id}" else "1")
        yield path


def test_no_route_answers_without_a_token(anonymous: TestClient) -> None:
    walked = [*addresses(anonymous), "/docs", "/redoc", "/nowhere", "/v1/nowhere", "/v1/jobs/x/y"]
    closed = [
        path for path in walked if path not in PUBLIC_PATHS and not path.startswith(PUBLIC_FOLDER)
    ]
    assert len(closed) > 25
    for path in closed:
        for method in METHODS:
            answer = anonymous.request(method, path)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_only_health_and_signing_in_are_public(anonymous: TestClient) -> None:
    public = {path for path in addresses(anonymous) if anonymous.get(path).status_code != 401}
    assert {path for path in public if not path.startswith(PUBLIC_FOLDER)} == set(PUBLIC_PATHS)


def test_a_token_opens_every_route_that_reads(api: TestClient) -> None:
    for path in addresses(api):
        assert api.get(path).status_code not in (401, 403, 500), path


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer al_" + "0" * 43 + "_0000000",
        "Basic YWRhOmFkYQ==",
        "Negotiate x",
        "Bearer ä",
    ],
)
def test_what_is_no_token_opens_nothing(anonymous: TestClient, header: str) -> None:
    answer = anonymous.get("/v1/jobs", headers=[(b"Authorization", header.encode())])
    assert answer.status_code == 401


def test_a_token_that_was_revoked_or_has_expired_opens_nothing(
    api: TestClient, sessions: Sessions
) -> None:
    assert api.get("/v1/jobs").status_code == 200
    for column in ("revoked_at", "expires_at"):
        with sessions.begin() as session:
            row = session.scalars(select(Token)).one()
            row.revoked_at = row.expires_at = None
            setattr(row, column, func.clock_timestamp())
        assert api.get("/v1/jobs").status_code == 401


def test_a_token_opens_what_its_scopes_say(anonymous: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        reading, working = (a_token(session, scope, [scope]) for scope in ("read", "worker"))
    expected = {
        ("GET", "/v1/jobs"): (200, 403),
        ("POST", "/v1/jobs"): (403, 403),
        ("POST", f"/v1/jobs/{SOMEWHERE}/cancel"): (403, 403),
    }
    for (method, path), statuses in expected.items():
        for token, status in zip((reading, working), statuses, strict=True):
            answer = anonymous.request(
                method,
                path,
                headers={"Authorization": f"Bearer {token}"},
                json=an_adapt_document() if method == "POST" else None,
            )
            assert answer.status_code == status, (method, path)
            assert answer.headers["content-type"].endswith("json")


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
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"}, 403),
        ({"Origin": "http://testserver"}, 404),
        ({"Origin": "http://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_a_browser_changes_things_only_from_our_own_pages(
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
        assert client.get("/healthz").json() == {"status": "ok"}
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

    monkeypatch.setattr("adaptlab_services.workers.recent", fail)
    answer = api.get("/v1/workers")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "hunter2" not in answer.text


def test_every_route_is_described_or_a_page(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    for context in iter_route_contexts(api.app.routes):  # type: ignore[attr-defined]
        path = re.sub(r":[a-z]+}", "}", context.path or "")  # a document has no converters
        if path.startswith("/v1"):
            assert path in document["paths"], path
