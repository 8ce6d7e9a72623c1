"""Slow requests of one person leave threads for others and health."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
import pytest
from anyio import to_thread
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.measured import PLACE as BUNDLE
from tests.api.measured import a_study
from tests.api.people import bearer
from tests.making import a_token
from tests.patience import LONG
from tests.worker.conftest import wait_until

from adaptlab_api.answers.state import resources_of
from adaptlab_api.app import THREADS, create_app
from adaptlab_api.doors import open_requests
from adaptlab_api.doors.open_requests import READS_AT_ONCE
from adaptlab_services.comparisons import bundles
from adaptlab_services.comparisons.bundles import WrittenBundle
from adaptlab_services.server import readiness
from adaptlab_services.server.readiness import Readiness
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
T = TypeVar("T")
SLOW = "/v1/workers"
EXPORT = "/v1/results/curves?format=csv"
QUICK = "/v1/methods"


class Gate:
    """Holds what passes until it is opened, and counts who stands before it."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._standing = 0
        self._changed = threading.Condition()

    def hold(self, *_: object, **__: object) -> tuple[()]:
        with self._changed:
            self._standing += 1
            self._changed.notify_all()
        assert self._open.wait(120)
        return ()

    def wait_for(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._standing == number, 60)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Where slow reads and exports stand."""
    gate = Gate()
    monkeypatch.setattr("adaptlab_api.routes.server.workers.recent", gate.hold)
    monkeypatch.setattr("adaptlab_api.routes.queries.bulk_rows.all_curves", gate.hold)
    yield gate
    gate.open()


@pytest.fixture
def other(sessions: Sessions) -> str:
    with sessions.begin() as session:
        return a_token(session, "ben")


class Running:
    """An application in a thread, which takes requests from this one."""

    def __init__(self, app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
        self.app = app
        self._loop = loop

    def __call__(self, path: str, token: str | None = None) -> Future[httpx.Response]:
        return self.begin(self._ask(path, bearer(token) if token else {}))

    def begin(self, coroutine: Coroutine[object, object, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def _ask(self, path: str, headers: dict[str, str]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get(path, headers=headers, timeout=None)


@contextmanager
def the_application(settings: Settings) -> Iterator[Running]:
    """An application that runs."""
    started: Future[Running] = Future()
    over = asyncio.Event()

    async def run() -> None:
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            started.set_result(Running(app, asyncio.get_running_loop()))
            await over.wait()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, run())
        application = started.result(60)
        try:
            yield application
        finally:
            application.begin(_set(over)).result(60)
            running.result(60)


async def _set(event: asyncio.Event) -> None:
    event.set()


@pytest.mark.parametrize("slow", [SLOW, EXPORT])
def test_slow_reads_of_one_person_leave_threads_for_others(
    settings: Settings,
    token: str,
    other: str,
    gate: Gate,
    slow: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with the_application(settings) as ask:
        asked = [ask(slow, token) for _ in range(READS_AT_ONCE)]
        gate.wait_for(READS_AT_ONCE)
        monkeypatch.setattr(open_requests, "PATIENCE_SECONDS", 0.01)
        refused = [ask(path, token).result(60) for path in (slow, QUICK, SLOW, EXPORT)]
        assert ask(QUICK, other).result(60).status_code == 200
        gate.wait_for(READS_AT_ONCE)
        gate.open()
        answered = [one.result(60).status_code for one in asked]
        assert ask(QUICK, token).result(60).status_code == 200
    assert answered == [200] * READS_AT_ONCE
    for one in refused:
        assert one.status_code == 429
        assert int(one.headers["retry-after"]) >= 1
        assert f"{READS_AT_ONCE} slow reads" in one.json()["detail"]


def test_a_read_that_comes_in_time_gets_its_turn(
    settings: Settings, token: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_requests, "PATIENCE_SECONDS", LONG)
    with the_application(settings) as ask:
        asked = [ask(SLOW, token) for _ in range(READS_AT_ONCE)]
        gate.wait_for(READS_AT_ONCE)
        quick = ask(QUICK, token)
        gate.open()
        assert {one.result(60).status_code for one in (*asked, quick)} == {200}


def test_health_is_told_while_no_thread_is_free(
    settings: Settings, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a pooled connection: all of them may be with the slow ones."""
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", LONG)
    with the_application(settings) as ask:
        taken = ask.begin(take_all(gate))
        gate.wait_for(THREADS)
        for path in ("/healthz", "/readyz"):
            assert ask(path).result(60).status_code == 200
        gate.open()
        taken.result(60)


async def take_all(gate: Gate) -> None:
    """Take every thread of the application."""
    await asyncio.gather(*(to_thread.run_sync(gate.hold) for _ in range(THREADS)))


def test_a_wait_holds_no_turn(
    settings: Settings, token: str, api: Any, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long polls, of which there may be many, are no slow reads."""
    monkeypatch.setattr(open_requests, "PATIENCE_SECONDS", LONG)
    with the_application(settings) as ask:
        waiting = [ask(f"{job}?wait=60", token) for _ in range(2 * READS_AT_ONCE)]
        assert ask(QUICK, token).result(60).status_code == 200
        assert api.post(f"{job}/cancel").status_code == 200
        assert {one.result(60).status_code for one in waiting} == {200}


@pytest.mark.long("large uploads and slow clients")
def test_who_waits_for_plots_to_be_drawn_holds_no_thread(
    settings: Settings,
    token: str,
    api: TestClient,
    sessions: Sessions,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One bundle is drawn at a time, beside one more request."""
    a_study(api, sessions, budgets=[64])
    monkeypatch.setattr("adaptlab_api.app.THREADS", 2)
    monkeypatch.setattr("adaptlab_api.routes.bundles.PATIENCE_SECONDS", 5 * LONG)
    real = bundles.written

    def held(*asked: Any) -> WrittenBundle:
        gate.hold()
        return real(*asked)

    monkeypatch.setattr(bundles, "written", held)
    with the_application(settings) as ask:
        drawings = resources_of(ask.app).drawings
        asked = [ask(BUNDLE, token) for _ in range(3)]
        gate.wait_for(1)
        wait_until(lambda: len(drawings._waiters or ()) == 2, "a queue of two")
        assert ask(QUICK, token).result(60).status_code == 200
        gate.open()
        assert [one.result(5 * LONG).status_code for one in asked] == [200] * 3


def in_a_loop_of_its_own(asking: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread, since browser tests leave a loop."""
    with ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, asking).result()


def test_readiness_asks_once_for_all_who_ask_and_again_by_a_new_connection(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", LONG)

    async def asked() -> list[tuple[str, ...]]:
        known = Readiness(settings)
        try:
            first = await asyncio.gather(*(known.silent() for _ in range(20)))
            connection = known._database._connection
            assert connection is not None
            await connection.close()  # as a restart of the database does
            return [*first, await known.silent()]
        finally:
            await known.close()

    assert in_a_loop_of_its_own(asked()) == [()] * 21


def test_readiness_says_no_where_nobody_answers(settings: Settings) -> None:
    nobody = "postgresql+psycopg://nobody@127.0.0.1:1/none"

    away = settings.model_copy(update={"database_url": nobody})

    async def asked() -> tuple[str, ...]:
        known = Readiness(away)
        try:
            return await known.silent()
        finally:
            await known.close()

    assert in_a_loop_of_its_own(asked()) == ("database",)
    with the_application(away) as ask:
        answer = ask("/readyz").result(60)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert ask("/healthz").result(60).status_code == 200
