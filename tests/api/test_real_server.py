"""The server on a real socket: streams, waits, limits and stopping."""

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.api.serving import Running, a_server
from tests.folders import a_model_folder, with_weights
from tests.making import a_base_model, a_claim, a_made_up_ledger, an_adapt_document
from tests.nursery import Nursery
from tests.standstills import Watch

from adaptlab.runs import events as results
from adaptlab_api.openapi import undeployed
from adaptlab_client import Client
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
MEGABYTE = 2**20
JSON = {"Content-Type": "application/json"}


# Only transformers, which no server has, brings this along; lark loads it where it finds it.
AS_INSTALLED = "import sys; sys.modules['regex'] = None"
# A slow machine looks for longer than that after the many who come at once.
PATIENT = "from adaptlab_api.doors import open_requests; open_requests.PATIENCE_SECONDS = 60.0"


@pytest.fixture
def server(settings: Settings, token: str, tmp_path: Path, nursery: Nursery) -> Iterator[Running]:
    with a_server(settings, token, tmp_path / "server.log", PATIENT, nursery) as running:
        yield running


@pytest.fixture
def loaded_server(settings: Settings, token: str, tmp_path: Path) -> Iterator[Running]:
    """A server that has loaded its own modules, for tests of its memory."""
    before = f"{AS_INSTALLED}\n{PATIENT}"
    with a_server(settings, token, tmp_path / "server.log", before) as running:
        yield running


@pytest.fixture
def ledger(sessions: Sessions) -> DatabaseLedger:
    with sessions.begin() as session:
        a_base_model(session)
    return a_made_up_ledger(sessions)


def create(server: Running) -> str:
    answer = server.client.post("/v1/jobs", json=an_adapt_document())
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


def blocks(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Server-sent events, one dictionary each; comments are left out."""
    event: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = value
        elif not line and event:
            yield event
            event = {}


@contextmanager
def following(server: Running, job: str, **headers: str) -> Iterator[Iterator[dict[str, str]]]:
    asked = {"Accept": "text/event-stream"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    with server.client.stream("GET", f"{job}/events", headers=asked) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield blocks(answer.iter_lines())


def test_a_job_is_followed_from_its_creation_to_its_end(
    server: Running, ledger: DatabaseLedger
) -> None:
    job = create(server)
    with following(server, job) as events:
        first = next(events)
        assert (first["id"], first["event"]) == ("1", "queued")
        claim = a_claim(ledger)
        assert next(events)["event"] == "running"
        ledger.record(claim, [results.Progress(phase="training", step=2, total=4)])
        news: list[dict[str, str]] = [next(events), next(events)]
        by_type = {event["event"]: event for event in news}
        assert set(by_type) == {"first_step", "progress"}
        assert "id" not in by_type["progress"]
        assert json.loads(by_type["progress"]["data"]) == {"step": 2, "total": 4}
        ledger.heartbeat(claim, 4, results.Progress(phase="answering", step=3, total=8))
        told = json.loads(next(events)["data"])
        assert (told["phase"], told["phase_done"], told["phase_total"]) == ("answering", 3, 8)
        ledger.finish(claim)
        *_, last = events
    assert last["event"] == "succeeded"
    assert json.loads(last["data"])["sequence"] == int(last["id"])


def test_a_broken_stream_goes_on_where_it_was(server: Running, ledger: DatabaseLedger) -> None:
    job = create(server)
    claim = a_claim(ledger)
    ledger.finish(claim)
    with following(server, job, Last_Event_ID="1") as events:
        assert [event["event"] for event in events] == ["running", "succeeded"]
    over = server.client.get(
        f"{job}/events", headers={"Accept": "text/event-stream", "Last-Event-ID": "3"}
    )
    assert over.status_code == 204


def test_a_wait_ends_when_something_happens(server: Running, ledger: DatabaseLedger) -> None:
    job = create(server)
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(server.client.get, f"{job}?wait=60&if_state_not=queued", timeout=120)
        a_claim(ledger)
        answer = waiting.result()
    assert answer.json()["state"] == "running"
    assert time.monotonic() - started < 55  # the wait would end by itself after sixty


def connections(sessions: Sessions) -> tuple[int, int]:
    """The number of connections, and of those inside a transaction."""
    query = text(
        "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%') "
        "FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
    )
    with sessions.begin() as session:
        total, stuck = session.execute(query).one()
    return total, stuck


def test_followers_and_waiters_hold_no_connection(
    server: Running, ledger: DatabaseLedger, sessions: Sessions
) -> None:
    job = create(server)
    limits = httpx.Limits(max_connections=100)
    with (
        httpx.Client(
            base_url=server.url, headers=server.client.headers, limits=limits, timeout=120
        ) as many,
        ThreadPoolExecutor(60) as pool,
        ExitStack() as streams,
    ):
        waits = [pool.submit(many.get, f"{job}?wait=60&if_state_not=queued") for _ in range(40)]
        accept = {"Accept": "text/event-stream"}
        opened = [
            streams.enter_context(many.stream("GET", f"{job}/events", headers=accept))
            for _ in range(40)
        ]
        readers = [blocks(answer.iter_lines()) for answer in opened]
        assert {next(reader)["event"] for reader in readers} == {"queued"}
        total, _ = connections(sessions)
        assert total <= 25
        started = time.monotonic()
        assert server.client.get(job).status_code == 200  # and others are served meanwhile
        assert time.monotonic() - started < 45
        server.client.post(f"{job}/cancel")
        assert {wait.result().json()["state"] for wait in waits} == {"cancelled"}
        for reader in readers:
            *_, last = reader
            assert last["event"] == "cancelled"


@pytest.mark.long("large uploads and slow clients", but=1)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_server_stops_while_streams_are_open(
    settings: Settings, token: str, tmp_path: Path, ledger: DatabaseLedger, how: int
) -> None:
    # In production two seconds, which a slow machine needs to tell the streams.
    before = "from adaptlab_api import server; server.STOP_SECONDS = 60"
    with a_server(settings, token, tmp_path / "server.log", before) as server:
        job = create(server)
        with ThreadPoolExecutor(2) as pool, following(server, job) as events:
            next(events)
            waiting = pool.submit(server.client.get, f"{job}?wait=50&if_state_not=queued")
            with following(server, job) as others:
                next(others)
                started = time.monotonic()
                with Watch() as watch:
                    server.process.send_signal(how)
                    assert list(events) == list(others) == []  # ended, not broken off
                    server.process.wait(60)
                took = time.monotonic() - started - watch.lost
            assert waiting.result().json()["state"] == "queued"
        assert took < 30  # a wait for the streams takes sixty
    log = (tmp_path / "server.log").read_text()
    assert "Traceback" not in log, log


@pytest.mark.usefixtures("ledger")
def test_a_server_without_haste_finishes_a_request_that_has_begun(
    settings: Settings, token: str, tmp_path: Path, nursery: Nursery
) -> None:
    """The rest of a request arrives when a server in haste would have ended."""
    before = "from adaptlab_api import server; server.STOP_SECONDS = 0"
    log = tmp_path / "server.log"
    with a_server(settings, token, log, before, nursery) as server:
        body = json.dumps(an_adapt_document()).encode()
        asked = threading.Event()

        def pieces() -> Iterator[bytes]:
            yield body[:10]
            asked.set()
            # Two seconds: the server sleeps at most as long before it sees a signal.
            time.sleep(2.5)
            yield body[10:]

        with ThreadPoolExecutor(1) as pool:
            posted = pool.submit(
                server.client.post, "/v1/jobs?validate_only=true", content=pieces(), headers=JSON
            )
            assert asked.wait(60)
            server.process.send_signal(signal.SIGUSR2)
            answer = posted.result()
        assert answer.status_code == 200, answer.text
        assert server.process.wait(60) == 0


def raw(server: Running, request: bytes, *pieces: bytes) -> bytes:
    """What comes back for bytes that no polite client would send."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        token = server.client.headers["authorization"].encode()
        connection.sendall(request.replace(b"TOKEN", token))
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    return answer


HEAD = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: TOKEN\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\n"
)


@pytest.mark.long("large uploads and slow clients")
def test_a_body_over_the_limit_is_refused_before_it_is_held(loaded_server: Running) -> None:
    server = loaded_server
    assert server.client.post("/v1/jobs", json=an_adapt_document()).status_code == 422
    before = server.resident
    large = b"x" * (64 * MEGABYTE)
    announced = raw(server, HEAD + b"Content-Length: %d\r\n\r\n" % len(large), large)
    chunk = b"%x\r\n%s\r\n" % (MEGABYTE, b"x" * MEGABYTE)
    chunked = raw(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 64)
    for answer in (announced, chunked):
        assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
        assert b"application/problem+json" in answer
    assert server.resident - before < 16 * MEGABYTE


def test_what_is_hardly_http_is_refused(server: Running) -> None:
    for length in (b"-1", b"x", b"1e3", b"9" * 30):
        assert raw(server, HEAD + b"Content-Length: " + length + b"\r\n\r\n").startswith(
            b"HTTP/1.1 400"
        )
    assert raw(server, HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n")[9:12] in (b"400", b"431")
    assert server.client.get("/healthz").status_code == 200


@pytest.mark.long("large uploads and slow clients")
def test_memory_stays_small(
    loaded_server: Running, ledger: DatabaseLedger, sessions: Sessions
) -> None:
    server = loaded_server
    job = create(server)
    content = bytes(MEGABYTE)
    claim = a_claim(ledger)
    stored = ledger.put_artifact(claim, (content for _ in range(64)))
    written = results.CheckpointWritten(
        checkpoint=results.Checkpoint(
            replicate=0, seed=0, kind="adapter", parameters=1, tensors={"x": (1,)}
        ),
        path=Path("x"),
    )
    ledger.record(claim, [written], {Path("x"): stored.sha256})
    ask_everything(server, job, 200)
    resident = server.resident
    assert resident < 256 * 10**6, f"{resident / 10**6:.0f} MB"
    assert server.client.get("/openapi.json").json() == undeployed().openapi()
    (file,) = server.client.get(f"{job}/checkpoints").json()["data"]
    received = 0
    with server.client.stream("GET", file["links"]["content"]) as answer:
        for piece in answer.iter_bytes():
            received += len(piece)
    assert received == 64 * MEGABYTE
    assert server.resident - resident < 24 * MEGABYTE
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    for library in ("torch", "scipy", "vl_convert", "transformers"):
        assert f"/{library}/" not in maps, library


@pytest.mark.long("large uploads and slow clients")
def test_an_uploaded_model_is_never_whole_in_memory(loaded_server: Running, tmp_path: Path) -> None:
    folder, server = a_model_folder(tmp_path / "llama"), loaded_server
    config = json.loads((folder / "config.json").read_text())
    wide = {"vocab_size": 2**21, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps({**config, **wide}))
    words = np.zeros((2**21, 8), np.float32)
    with_weights(folder, **{"model.embed_tokens.weight": words, "lm_head.weight": None})
    small = a_model_folder(tmp_path / "small")
    with Client(server.url, server.client.headers["authorization"].split()[1]) as client:
        # What an upload and an import load when first asked is no part of the model.
        client.base_models.import_folder(
            "small", client.model_folders.upload("small", small).folder
        )
        before = server.resident
        made = client.model_folders.upload("large", folder)
        client.base_models.import_folder("large", made.folder)
    assert made.size_bytes > 4 * 2**24
    assert server.resident - before < made.size_bytes / 2


def ask_everything(server: Running, job: str, times: int) -> None:
    """A mixture of requests, until there were so many."""
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/v1/jobs", an_adapt_document()),
        ("POST", "/v1/budgets/solve", {"base_model": "tiny-sort", "budget": 64}),
        ("POST", "/v1/jobs", an_adapt_document(budget=1)),
        *(("GET", f"{job}{part}", None) for part in ("", "/metrics", "/events", "/attention")),
        ("GET", "/v1/jobs?filter=state = queued OR labels.x = y", None),
        ("GET", "/v1/methods", None),
        ("GET", "/openapi.json", None),
        ("GET", "/", None),
        ("GET", "/jobs/" + job.rpartition("/")[2], None),
        ("GET", "/v1/nowhere", None),
    ]
    for number in range(times):
        method, path, body = asked[number % len(asked)]
        answer = server.client.request(method, path, json=body)
        assert answer.status_code < 500, (method, path, answer.text)
