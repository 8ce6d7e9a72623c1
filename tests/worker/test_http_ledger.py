"""Errors between a worker and the API, and their effect on the worker."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.job_rows import job, new_job
from tests.ledgers import a_worker_token
from tests.making import a_base_model, a_job, an_adapt_spec, metric_points

from adaptlab.runs.events import Metrics, Progress, TrainingSaved
from adaptlab_api.app import create_app
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import CheckpointRow, MetricPointRow, Token, TrainingStateRow, Worker
from adaptlab_services.errors import LedgerRefused, LedgerUnreachable
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.settings import Settings
from adaptlab_worker.errors import UnexpectedServerAnswer
from adaptlab_worker.ledger import http_ledger
from adaptlab_worker.ledger.api_connection import ApiConnection, open_connections
from adaptlab_worker.ledger.http_ledger import HttpLedger, batches

Sessions = sessionmaker[Session]
CONTENT = bytes(range(256)) * 16_384  # 4 MiB


class Line(httpx.BaseTransport):
    """A line to the server that breaks in the middle of answers.

    `lengths` are how many bytes of each get through; of further answers, all.
    """

    def __init__(self, app: TestClient, lengths: list[int]) -> None:
        self._inner = cast("httpx.BaseTransport", app._transport)
        self._lengths = lengths
        self.asked: list[str | None] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._inner.handle_request(request)
        headers = answer.headers.multi_items()
        content = b"".join(cast("httpx.SyncByteStream", answer.stream))
        if "/artifacts/" in request.url.path:
            self.asked.append(request.headers.get("range"))
            if self._lengths:
                stream = Cut(content[: self._lengths.pop(0)])
                return httpx.Response(answer.status_code, headers=headers, stream=stream)
        return httpx.Response(answer.status_code, headers=headers, content=content)


class Cut(httpx.SyncByteStream):
    """An answer that ends too early."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        if self._content:
            yield self._content
        raise httpx.ReadError("The line broke.")


@pytest.fixture
def app(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def token(sessions: Sessions) -> str:
    return a_worker_token(sessions)


def by(app: TestClient, token: str, lengths: list[int] | None = None) -> tuple[HttpLedger, Line]:
    line = Line(app, lengths or [])
    headers = {"Authorization": f"Bearer {token}"}
    http = httpx.Client(base_url="http://testserver", headers=headers, transport=line)
    return HttpLedger(ApiConnection(http)), line


def a_claim(ledger: HttpLedger) -> Claim:
    claim = ledger.claim(ledger.register_worker("node", 1, ["cpu"]), ["cpu"])
    assert claim is not None
    return claim


def with_large_base(sessions: Sessions) -> str:
    """A job whose base model is `CONTENT`; its SHA-256."""
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session)
        sha256 = ArtifactStore(session).write([CONTENT]).sha256
        session.execute(update(CheckpointRow).values(artifact_sha256=sha256))
    return sha256


def test_content_that_breaks_off_goes_on_from_there(
    app: TestClient, sessions: Sessions, token: str
) -> None:
    sha256 = with_large_base(sessions)
    ledger, line = by(app, token, [2**20, 2**20])
    assert b"".join(ledger.fetch_artifact(a_claim(ledger), sha256)) == CONTENT
    assert line.asked == [None, f"bytes={2**20}-", f"bytes={2**21}-"]


def test_content_of_which_nothing_comes_is_left_to_who_asked(
    app: TestClient, sessions: Sessions, token: str
) -> None:
    sha256 = with_large_base(sessions)
    ledger, line = by(app, token, [2**20, 0])
    with pytest.raises(LedgerUnreachable, match="ReadError"):
        list(ledger.fetch_artifact(a_claim(ledger), sha256))
    assert len(line.asked) == 2


def test_a_server_that_is_not_there_may_be_asked_again() -> None:
    with open_connections("http://127.0.0.1:1", "none") as http, pytest.raises(LedgerUnreachable):
        HttpLedger(ApiConnection(http)).register_worker("node", 1, ["cpu"])


def test_a_token_that_was_revoked_is_not_tried_again(
    app: TestClient, sessions: Sessions, token: str
) -> None:
    ledger, _ = by(app, token)
    with sessions.begin() as session:
        session.execute(update(Token).values(revoked_at=func.clock_timestamp()))
    with pytest.raises(LedgerRefused, match="scope `worker`"):
        ledger.register_worker("node", 1, ["cpu"])


def test_a_database_that_is_away_may_be_asked_again(
    settings: Settings, sessions: Sessions, token: str
) -> None:
    gone = settings.model_copy(update={"database_url": "postgresql+psycopg://x@127.0.0.1:9/none"})
    with TestClient(create_app(gone), raise_server_exceptions=False) as app:
        ledger, _ = by(app, token)
        with pytest.raises(LedgerUnreachable, match="503"):
            ledger.register_worker("node", 1, ["cpu"])


def test_a_worker_that_the_server_has_forgotten_makes_itself_known_again(
    app: TestClient, sessions: Sessions, token: str
) -> None:
    ledger, _ = by(app, token)
    worker = ledger.register_worker("node", 1, ["cpu"])
    with sessions.begin() as session:
        session.execute(delete(Worker))
    new_job(sessions)
    claim = ledger.claim(worker, ["cpu"])
    assert claim is not None
    assert ledger.heartbeat(claim, 1) == "continue"
    ledger.say_goodbye(worker)
    with sessions() as session:
        assert session.scalars(select(Worker.stopped_at)).one() is not None


def test_what_is_too_much_for_one_request_goes_in_several(
    app: TestClient, sessions: Sessions, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_job(sessions, spec=an_adapt_spec(training={"steps": 9, "batch_size": 4}))
    ledger, _ = by(app, token)
    claim = a_claim(ledger)
    monkeypatch.setattr(http_ledger, "MOST_EVENTS", 2)
    sha256 = ledger.put_artifact(claim, [b"a ", b"state"]).sha256
    path = Path("/node/training.safetensors")
    events = [Metrics(points=metric_points([step])) for step in range(1, 8)]
    ledger.record(claim, [*events, TrainingSaved(step=6, path=path)], {path: sha256})
    with sessions() as session:
        assert session.scalars(select(func.count()).select_from(MetricPointRow)).one() == 7
        assert session.scalars(select(TrainingStateRow.artifact_sha256)).one() == sha256
    ledger.record(claim, [Progress(phase="training", step=6, total=9)])
    assert job(sessions, claim.job_id).step == 6


def test_a_file_that_is_too_large_names_the_setting(
    settings: Settings, sessions: Sessions, token: str
) -> None:
    narrow = settings.model_copy(update={"max_upload_bytes": 2**20})
    new_job(sessions)
    with TestClient(create_app(narrow), raise_server_exceptions=False) as app:
        ledger, _ = by(app, token)
        claim = a_claim(ledger)
        assert ledger.put_artifact(claim, [bytes(2**20)]).size == 2**20
        with pytest.raises(
            UnexpectedServerAnswer, match=r"1048576 bytes.*ADAPTLAB_MAX_UPLOAD_BYTES"
        ):
            ledger.put_artifact(claim, [bytes(2**20), b"x"])


def test_batches_keep_the_order_and_none_is_larger_than_it_must_be() -> None:
    events = [Metrics(points=metric_points(range(count))) for count in (1, 1, 50, 1, 1)]
    largest = len(events[2].model_dump_json())
    parts = list(batches(events, most=largest - 1))
    assert [event for part in parts for event in part] == events
    assert [len(part) for part in parts] == [2, 1, 2]
    assert list(batches([])) == [[]]
