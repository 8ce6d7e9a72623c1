"""Every request is answered in time, also while the database stands still."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from tests.api.serving import Running, a_server
from tests.freezing import Passage, passage_to
from tests.nursery import Nursery
from tests.worker.conftest import wait_until

from adaptlab_api.app import create_app
from adaptlab_api.doors.open_requests import READS_AT_ONCE
from adaptlab_api.doors.time_limit import TimeLimit
from adaptlab_services.settings import Settings

pytestmark = pytest.mark.may_stand_still(
    "an answer has seconds, which a machine that stands still uses up"
)
LIMIT = 3.0
FAR_TOO_LATE = 12.0
"""Before there was a limit, `/readyz` took 15 s and a list more than 60."""


@pytest.fixture
def frozen(
    settings: Settings,
    token: str,
    tmp_path: Path,
    nursery: Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Passage, Running]]:
    """A server whose database can be frozen."""
    monkeypatch.setenv("ADAPTLAB_ANSWER_SECONDS", str(LIMIT))
    with passage_to(settings.database_url) as (passage, url):
        through = settings.model_copy(update={"database_url": url})
        with a_server(through, token, tmp_path / "server.log", nursery=nursery) as server:
            yield passage, server
            passage.thaw()


@pytest.mark.long("chaos at length")
def test_a_database_that_stands_still_is_answered_with_503_and_a_time(
    frozen: tuple[Passage, Running],
) -> None:
    passage, server = frozen
    assert server.client.get("/v1/jobs").status_code == 200
    passage.freeze()
    for _ in range(READS_AT_ONCE):
        begin = time.monotonic()
        late = server.client.get("/v1/jobs")
        assert LIMIT <= time.monotonic() - begin < FAR_TOO_LATE
        assert (late.status_code, late.headers["content-type"]) == (503, "application/problem+json")
        assert late.json()["type"] == "urn:adaptlab:problem:no-answer-in-time"
        assert "within 3 seconds" in late.json()["detail"]
        assert int(late.headers["retry-after"]) >= 1
        assert late.headers["x-content-type-options"] == "nosniff"
    passage.thaw()
    wait_until(lambda: server.client.get("/v1/jobs").status_code == 200, "a list again")


def test_readiness_is_told_within_two_seconds_and_comes_back(
    frozen: tuple[Passage, Running],
) -> None:
    passage, server = frozen
    passage.freeze()
    for _ in range(3):  # the first by a connection that was open, the others by the same question
        begin = time.monotonic()
        answer = server.client.get("/readyz")
        assert time.monotonic() - begin < FAR_TOO_LATE / 2
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert answer.json()["type"] == "urn:adaptlab:problem:unavailable"
    passage.thaw()
    wait_until(lambda: server.client.get("/readyz").status_code == 200, "readiness")


def test_a_long_poll_has_what_it_asked_to_wait(settings: Settings, job: str, token: str) -> None:
    hurried = settings.model_copy(update={"answer_seconds": 2})
    with TestClient(create_app(hurried)) as api:
        found = api.get(f"{job}?wait=3", headers={"Authorization": f"Bearer {token}"})
    assert found.status_code == 200


def test_the_clock_runs_from_the_last_byte_of_the_body() -> None:
    """How slowly a body may come is another limit's business."""
    assert status(TimeLimit(reading, 1), pauses=[0.7, 0.7, 0.7]) == 200
    assert status(TimeLimit(sleeping, 1), pauses=[0]) == 503


@pytest.mark.long("large uploads and slow clients")
def test_a_new_dataset_has_ten_times_as_long() -> None:
    hasty = TimeLimit(sleeping, 0.5)
    assert status(hasty, [0], "POST /v1/datasets") == 200
    assert status(hasty, [0], "GET /v1/datasets") == 503
    assert status(hasty, [0], "POST /v1/jobs") == 503


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await Response()(scope, receive, send)


async def sleeping(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await asyncio.sleep(2)
    await Response()(scope, receive, send)  # nobody gets this


def status(app: TimeLimit, pauses: list[float], route: str = "POST /") -> int:
    """The answer's status, found in a thread of its own.

    Browser tests leave a running event loop in the thread of the tests, where a second one cannot
    run.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(answered(app, pauses, route))).result()


async def answered(app: TimeLimit, pauses: list[float], route: str) -> int:
    """The status of the only answer to a body that comes in pieces."""
    left, sent = list(pauses), list[Message]()

    async def receive() -> Message:
        await asyncio.sleep(left.pop(0))
        return {"type": "http.request", "body": b"x", "more_body": bool(left)}

    async def send(message: Message) -> None:
        sent.append(message)

    method, path = route.split()
    scope = {"type": "http", "path": path, "method": method, "query_string": b""}
    await app(scope, receive, send)
    (start,) = (message for message in sent if message["type"] == "http.response.start")
    return start["status"]


def test_a_broker_that_is_away_is_named_and_does_not_make_a_server_unready(
    settings: Settings,
) -> None:
    alone = settings.model_copy(update={"broker_url": "redis://127.0.0.1:1/0"})
    with TestClient(create_app(alone)) as api:
        found = api.get("/readyz")
    assert (found.status_code, found.json()["degraded"]) == (200, ["broker"])


def test_a_folder_of_artifacts_that_is_gone_makes_a_server_unready(
    settings: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    with_folder = settings.model_copy(
        update={"artifact_store": "directory", "artifact_folder": folder}
    )
    with TestClient(create_app(with_folder)) as api:
        assert api.get("/readyz").json() == {"status": "ready", "degraded": []}
        folder.rmdir()
        gone = api.get("/readyz")
    assert gone.status_code == 503
    assert "ADAPTLAB_ARTIFACT_FOLDER" in gone.json()["detail"]
