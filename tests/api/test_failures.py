"""Answers to failures of the server and to unknown methods."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import literal, select
from sqlalchemy.orm import Session

from adaptlab_api.answers.answer_headers import EVERYWHERE
from adaptlab_api.app import create_app
from adaptlab_db.session import LIMITS
from adaptlab_services.log_formats import JsonFormat
from adaptlab_services.models import base_models
from adaptlab_services.settings import Settings


@pytest.fixture
def failing(
    settings: Settings, token: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    """A server whose list of base models ends in a surprise."""

    def fail(*_: object) -> None:
        raise RuntimeError("a surprise")

    monkeypatch.setattr(base_models, "page", fail)
    headers = {"Authorization": f"Bearer {token}"}
    app = create_app(settings)
    with TestClient(app, headers=headers, raise_server_exceptions=False) as client:
        yield client


def test_reading_may_pause_for_longer_than_a_unit_of_work(
    settings: Settings, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A starved server takes seconds to render a page."""
    page = base_models.page

    def slowly(*given: Any) -> Any:
        found = page(*given)
        time.sleep(0.6)
        return found

    monkeypatch.setattr(base_models, "page", slowly)
    monkeypatch.setitem(LIMITS, "idle_in_transaction_session_timeout", "200ms")
    headers = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(settings), headers=headers) as client:
        assert client.get("/v1/base-models").status_code == 200
        assert client.get("/base-models").status_code == 200


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_a_failure_has_the_headers_of_every_answer_and_announces_the_end_of_the_connection(
    failing: TestClient, accept: str
) -> None:
    answer = failing.get("/v1/base-models", headers={"Accept": accept})
    assert answer.status_code == 500
    for name, _ in EVERYWHERE:
        assert answer.headers.get(name.decode()), name
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["connection"] == "close"
    assert "surprise" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/jobs", "GET, POST"),
        ("PUT", "/v1/uploads", "GET, POST"),
        ("PATCH", "/v1/uploads/00000000-0000-0000-0000-000000000000", "DELETE, GET"),
    ],
)
def test_a_refused_method_names_all_that_the_address_takes(
    api: TestClient, method: str, path: str, allowed: str
) -> None:
    answer = api.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert allowed in answer.json()["detail"]


def test_an_unexpected_error_of_the_database_is_logged_with_its_traceback(
    api: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(session: Session, *_: object) -> None:
        session.execute(select(1 / literal(0), literal("-".join(("a", "value")))))

    monkeypatch.setattr(base_models, "page", fail)
    caplog.handler.setFormatter(JsonFormat(str, None))
    answer = api.get("/v1/base-models", headers={"X-Request-ID": "request-of-mine"})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["request_id"] == "request-of-mine"
    assert not {"division", "SELECT"} & set(answer.text.split())
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    (line,) = [line for line in lines if line["message"].startswith("Unexpected DataError")]
    assert line["request_id"] == "request-of-mine"
    assert "division by zero" in line["exception"]
    assert "Traceback" in line["exception"]
    assert "a-value" not in line["exception"]
