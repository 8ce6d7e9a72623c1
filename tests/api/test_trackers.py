"""Trackers over HTTP: who may, addresses, tokens, kills, real boards."""

import base64
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import entries, person
from tests.api.serving import a_server
from tests.board_server import ServedBoard, a_board, in_time, send_due
from tests.client.boards import RUNS
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_study_document
from tests.nursery import Nursery
from tests.real_boards import real_mlflow, real_trackio
from tests.receiving import open_to_loopback
from tests.watching import until

from adaptlab_api.app import create_app
from adaptlab_db.tables import TrackedStudy, Tracker
from adaptlab_services.settings import Settings
from adaptlab_services.trackers.trackers import MOST_TRACKERS

__all__ = ["real_mlflow", "real_trackio"]  # found here by pytest

Sessions = sessionmaker[Session]
URL = "https://mlflow.example.org"
BODY = {"kind": "mlflow", "url": URL, "experiment": "lab", "token": "grace:canary-1234"}
OPEN = {"ADAPTLAB_WEBHOOK_NETWORKS": "127.0.0.0/8", "ADAPTLAB_WEBHOOK_HTTP": "allowed"}


@pytest.fixture
def board() -> Iterator[ServedBoard]:
    with a_board() as served:
        yield served


@pytest.fixture
def lab(settings: Settings, token: str) -> Iterator[TestClient]:
    """A server that looks often, and may send to this machine."""
    often = open_to_loopback(settings.model_copy(update={"sweep_seconds": 0.1}))
    with TestClient(create_app(often), headers={"Authorization": f"Bearer {token}"}) as client:
        yield client


def a_finished_study(api: Any, sessions: Sessions) -> str:
    with sessions.begin() as session:
        a_base_model(session)
    document = a_study_document(methods=["lora", "ia3"], budgets=[64], seeds=2, name="tracked")
    study: str = api.post("/v1/studies", json=document).json()["id"]
    run_all(sessions, lambda spec: Run(right=300 if (spec.method or {})["name"] == "lora" else 100))
    return study


def has_all(sessions: Sessions) -> bool:
    """Whether no study waits, and there is one."""
    with sessions() as session:
        waiting = func.count().filter(TrackedStudy.due_at.is_not(None))
        return session.execute(select(func.count(), waiting).select_from(TrackedStudy)).one() == (
            1,
            0,
        )


def test_a_new_tracker_gets_the_studies_there_are_with_its_token(
    lab: TestClient, sessions: Sessions, board: ServedBoard, caplog: pytest.LogCaptureFixture
) -> None:
    a_finished_study(lab, sessions)
    board.refusals, board.message = [401], "who is canary-1234?"
    with caplog.at_level(logging.DEBUG):
        added = lab.post("/v1/trackers", json=BODY | {"url": board.url})
        assert (added.status_code, added.json()["has_token"]) == (201, True)
        until(lambda: len(board.asked) == 1, "the refusal")
        until(lambda: lab.get("/v1/trackers").json()["data"][0]["error"] is not None, "the error")
        (shown,) = lab.get("/v1/trackers").json()["data"]
        assert f"MLflow at {board.url} answered 401: who is …?" in shown["error"]
        in_time(sessions)
        until(lambda: has_all(sessions), "the study on the board")
    assert board.tokens == {f"Basic {base64.b64encode(b'grace:canary-1234').decode()}"}
    assert len(board.board.runs) == RUNS
    assert "canary" not in caplog.text + lab.get("/v1/audit").text + lab.get("/webhooks").text


def test_the_token_is_sealed_for_its_own_address(
    api: TestClient, sessions: Sessions, settings: Settings, board: ServedBoard
) -> None:
    made = api.post("/v1/trackers", json=BODY)
    assert made.status_code == 201
    a_finished_study(api, sessions)
    with sessions.begin() as session:
        row = session.scalars(select(Tracker)).one()
        assert row.sealed is not None
        assert b"canary" not in row.sealed
        row.url = board.url
    in_time(sessions)
    send_due(sessions, open_to_loopback(settings))
    assert board.asked == []
    (shown,) = api.get("/v1/trackers").json()["data"]
    assert "key does not open the token" in shown["error"]


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"url": "http://mlflow.example.org"}, "/url"),
        ({"url": "https://10.0.0.1"}, "/url"),
        ({"url": f"{URL}?key=1"}, "/url"),
        ({"url": "https://me:secret@mlflow.example.org"}, "/url"),
        ({"kind": "wandb"}, "/kind"),
        ({"experiment": "a'b"}, "/experiment"),
        ({"token": "two\nlines"}, "/token"),
    ],
)
def test_what_cannot_be_a_tracker_is_refused(
    api: TestClient, changed: dict[str, str], pointer: str
) -> None:
    answer = api.post("/v1/trackers", json=BODY | changed)
    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]
    assert "canary" not in answer.text


@pytest.mark.parametrize(
    ("role", "sees", "adds"),
    [("submitter", False, 403), ("operator", True, 403), ("admin", True, 201)],
)
def test_admins_of_a_project_have_its_trackers(
    api: TestClient, sessions: Sessions, role: str, sees: bool, adds: int
) -> None:
    made = api.post("/v1/trackers", json=BODY).json()
    header = person(sessions, "asker", {"default": role, "own": "operator"})
    listed = api.get("/v1/trackers", headers=header).json()["data"]
    assert [one["id"] for one in listed] == ([made["id"]] if sees else [])
    other = BODY | {"experiment": "other"}
    answer = api.post("/v1/trackers?project=default", json=other, headers=header)
    assert answer.status_code == adds
    gone = api.delete(f"/v1/trackers/{made['id']}", headers=header)
    assert gone.status_code == (204 if adds == 201 else 403)


def test_trackers_of_other_projects_are_not_there(api: TestClient, sessions: Sessions) -> None:
    made = api.post("/v1/trackers", json=BODY).json()
    header = person(sessions, "stranger", {"own": "admin"})
    assert api.get("/v1/trackers", headers=header).json()["data"] == []
    assert api.delete(f"/v1/trackers/{made['id']}", headers=header).status_code == 404
    assert api.post("/v1/trackers", json=BODY, headers=header).status_code == 201
    assert len(api.get("/v1/trackers").json()["data"]) == 2


def test_a_project_has_a_tracker_once_and_some_at_most(api: TestClient) -> None:
    assert api.post("/v1/trackers", json=BODY).status_code == 201
    assert "has this tracker already" in api.post("/v1/trackers", json=BODY).json()["detail"]
    for number in range(MOST_TRACKERS - 1):
        body = BODY | {"experiment": f"lab {number}"}
        assert api.post("/v1/trackers", json=body).status_code == 201
    full = api.post("/v1/trackers", json=BODY | {"experiment": "more"})
    assert (full.status_code, f"{MOST_TRACKERS} trackers" in full.json()["detail"]) == (409, True)
    names = [entry["action"] for entry in entries(api)]
    assert names.count("add_tracker") == MOST_TRACKERS


@pytest.mark.long("chaos at length")
@pytest.mark.parametrize("number", [1, 4, RUNS])
def test_a_server_that_is_killed_doubles_nothing(
    api: TestClient,
    token: str,
    sessions: Sessions,
    settings: Settings,
    board: ServedBoard,
    tmp_path: Path,
    nursery: Nursery,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    """A run is created, and the process dies before the answer."""
    a_finished_study(api, sessions)
    begun, answered, plain = threading.Event(), threading.Event(), board.board.answer

    def slow(request: httpx.Request) -> httpx.Response:
        answer = plain(request)
        if len(board.board.runs) == number and not answered.is_set():
            begun.set()
            answered.wait()
        return answer

    monkeypatch.setattr(board.board, "answer", slow)
    for name, value in {**OPEN, "ADAPTLAB_SWEEP_SECONDS": "0.2"}.items():
        monkeypatch.setitem(os.environ, name, value)
    with a_server(settings, token, tmp_path / "first", nursery=nursery) as server:
        body = {"kind": "mlflow", "url": board.url}
        assert server.client.post("/v1/trackers", json=body).status_code == 201
        until(begun.is_set, "the run")
        server.process.kill()
    answered.set()
    in_time(sessions)
    with a_server(settings, token, tmp_path / "second", nursery=nursery):
        until(lambda: has_all(sessions), "the study on the board")
    keys = [run["tags"]["adaptlab.id"] for run in board.board.runs.values()]
    assert len(keys) == len(set(keys)) == RUNS


@pytest.mark.long("real MLflow")
def test_a_real_mlflow_gets_a_study_once(
    lab: TestClient, sessions: Sessions, real_mlflow: str
) -> None:
    a_finished_study(lab, sessions)
    body = {"kind": "mlflow", "url": real_mlflow}
    for _ in range(2):
        made = lab.post("/v1/trackers", json=body).json()
        until(lambda: has_all(sessions), "the study on the board")
        lab.delete(f"/v1/trackers/{made['id']}")
    asked = {"experiment_ids": ["1"], "max_results": 100}
    found = httpx.post(f"{real_mlflow}/api/2.0/mlflow/runs/search", json=asked).json()["runs"]
    assert len(found) == RUNS
    assert {run["info"]["status"] for run in found} == {"FINISHED"}
    tags = [{tag["key"]: tag["value"] for tag in run["data"]["tags"]} for run in found]
    assert any("LoRA (75.0 %)" in one.get("adaptlab.verdict", "") for one in tags)
    assert sum("mlflow.parentRunId" in one for one in tags) == RUNS - 1


@pytest.mark.long("real Trackio")
def test_a_real_trackio_gets_a_study(
    lab: TestClient, sessions: Sessions, real_trackio: tuple[str, Path]
) -> None:
    address, kept = real_trackio
    url, _, token = address.partition("?write_token=")
    a_finished_study(lab, sessions)
    body = {"kind": "trackio", "url": url.rstrip("/"), "experiment": "lab", "token": token}
    assert lab.post("/v1/trackers", json=body).status_code == 201
    until(lambda: has_all(sessions), "the study on the board")
    assert (kept / "lab.db").exists()
