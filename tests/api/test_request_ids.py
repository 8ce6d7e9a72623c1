"""Ids of requests in answers, errors, pages, and both logs."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.api.serving import Running, a_server
from tests.making import an_adapt_document
from tests.nursery import Nursery
from tests.watching import until

from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
ID = "x-request-id"
WRONG = ("", "a b", "a\tb", "x" * 65, "a,b", "é", 'a"b', "<b>", "a;b", "%0d%0a")


def test_an_id_is_accepted_and_returned(api: TestClient) -> None:
    for given in ("lb-7", "x" * 64, "A.b_c~d-9", str(UUID(int=7))):
        assert api.get("/v1/methods", headers={ID: given}).headers[ID] == given


def test_a_token_is_no_id(api: TestClient, token: str) -> None:
    assert api.get("/v1/methods", headers={ID: token}).headers[ID] != token


def test_a_wrong_id_is_replaced(api: TestClient) -> None:
    for wrong in WRONG:
        answer = api.get("/v1/methods", headers=[(ID.encode(), wrong.encode())])
        assert answer.status_code == 200
        assert UUID(answer.headers[ID]).version == 4


def test_of_two_ids_neither_is_taken(api: TestClient) -> None:
    answer = api.get("/v1/methods", headers=[(ID, "one"), (ID, "two")])
    assert UUID(answer.headers[ID]).version == 4
    assert answer.headers.get_list(ID) == [answer.headers[ID]]


def test_every_refusal_has_the_id(api: TestClient, anonymous: TestClient, job: str) -> None:
    named = {ID: "mine"}
    answers = [
        api.get("/v1/nowhere", headers=named),
        api.get(f"{job}x", headers=named),
        api.post("/v1/jobs", json={}, headers=named),
        api.post("/v1/jobs", content=b"{", headers=named | {"Content-Type": "application/json"}),
        api.delete("/v1/jobs", headers=named),
        api.post("/v1/jobs", content=b"x", headers=named | {"Content-Encoding": "gzip"}),
        api.get("/v1/jobs", headers=named | {"Authorization": "Bearer wrong"}),
        api.get("/v1/jobs?filter=(", headers=named),
    ]
    assert [answer.status_code for answer in answers] == [404, 404, 422, 400, 405, 415, 401, 422]
    for answer in answers:
        assert answer.json()["request_id"] == answer.headers[ID] == "mine"
        assert answer.json()["instance"] == "urn:adaptlab:request:mine"


@pytest.fixture
def broken(api: TestClient, sessions: Sessions) -> TestClient:
    """A server whose audit log refuses every entry."""
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE audit_entries ADD CHECK (false) NOT VALID"))
    return api


def test_an_unexpected_error_has_the_id(broken: TestClient, base: None) -> None:
    answer = broken.post("/v1/jobs", json=an_adapt_document(), headers={ID: "mine"})
    assert answer.status_code == 500
    assert answer.json()["request_id"] == answer.headers[ID] == "mine"


def test_pages_of_errors_show_the_id(api: TestClient) -> None:
    page = api.get("/jobs/nowhere", headers={"Accept": "text/html", ID: "mine"})
    assert page.status_code == 404
    assert "Request <code>mine</code>" in page.text
    assert page.headers[ID] == "mine"


def test_the_audit_log_has_the_id(api: TestClient, base: None) -> None:
    api.post("/v1/jobs", json=an_adapt_document(), headers={ID: "mine"})
    (entry,) = api.get("/v1/audit?page_size=1").json()["data"]
    assert (entry["action"], entry["request_id"]) == ("create_job", "mine")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture
def server(
    settings: Settings, token: str, log: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    """A server that logs everything as JSON."""
    monkeypatch.setenv("ADAPTLAB_LOG_FORMAT", "json")
    monkeypatch.setenv("ADAPTLAB_LOG_LEVEL", "debug")
    with a_server(settings, token, log, nursery=nursery) as running:
        yield running


def logged(log: Path, **facts: object) -> list[dict[str, object]]:
    """The lines with these facts; every line must be JSON."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if facts.items() <= line.items()]


def test_requests_are_logged(server: Running, log: Path, token: str) -> None:
    server.client.get("/v1/methods?filter=secret-query", headers={ID: "one"})
    server.client.get("/v1/jobs/%0aforged%0a", headers={ID: "two"})
    server.client.get("/v1/methods", headers={ID: "three", "Authorization": f"Bearer {token}x"})
    until(lambda: bool(logged(log, request_id="three", message="request")), "the last line", 60)
    (one,) = logged(log, request_id="one", message="request")
    assert (one["method"], one["route"], one["user"]) == ("GET", "/v1/methods", "ada")
    assert (one["status"], one["address"]) == (422, "127.0.0.1")
    assert isinstance(one["milliseconds"], float)
    (two,) = logged(log, request_id="two", message="request")
    assert two["path"] == "/v1/jobs/\nforged\n"
    content = log.read_text()
    assert token not in content
    assert "secret-query" not in content


def test_health_checks_are_logged_for_debugging_only(server: Running, log: Path) -> None:
    server.client.get("/healthz", headers={ID: "check"})
    until(lambda: bool(logged(log, request_id="check")), "the line", 60)
    (line,) = logged(log, request_id="check")
    assert (line["level"], line["status"]) == ("debug", 200)


BROKEN = "from adaptlab_services.models import catalogue; catalogue.methods = lambda: [][0]"


def test_a_traceback_has_the_id_of_its_request(
    settings: Settings, token: str, log: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAPTLAB_LOG_FORMAT", "json")
    with a_server(settings, token, log, BROKEN, nursery) as server:
        answer = server.client.get("/v1/methods", headers={ID: "mine"})
        assert (answer.status_code, answer.headers[ID]) == (500, "mine")
        until(lambda: any("exception" in line for line in logged(log)), "a traceback", 60)
    (traced,) = [line for line in logged(log) if "exception" in line]
    assert traced["request_id"] == "mine"
    assert "IndexError" in str(traced["exception"])
    assert logged(log, message="request", request_id="mine")[0]["status"] == 500


def test_what_is_no_request_gets_an_id_too(server: Running, log: Path) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"NO HTTP\r\nX-Request-ID: mine\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    given = json.loads(body)["request_id"]
    assert f"x-request-id: {given}".encode() in head.lower()
    assert UUID(given).version == 4
    until(lambda: bool(logged(log, request_id=given)), "the line", 60)


def test_the_log_of_requests_can_be_off(
    settings: Settings, token: str, log: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAPTLAB_ACCESS_LOG", "off")
    with a_server(settings, token, log, nursery=nursery) as server:
        answer = server.client.get("/v1/methods", headers={ID: "mine"})
        assert answer.headers[ID] == "mine"
    assert "INFO" in log.read_text()
    assert "mine" not in log.read_text()
