"""A real server on a database of its own, made-up jobs, and a browser."""

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient
from playwright.sync_api import Browser
from sqlalchemy.orm import Session, sessionmaker
from starlette.types import ASGIApp
from tests.pages.browsers import browser
from tests.pages.made_up import MadeUpWorker
from tests.pages.reading import HERE, PAGE
from tests.pages.visitors import Visitor, a_visitor
from tests.patience import patient_comparisons

from adaptlab_api.app import create_app
from adaptlab_api.doors.nearest_proxy import NearestProxy
from adaptlab_api.pages.rendering.assets import charts_script
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

__all__ = ["browser", "patient_comparisons"]  # found here by pytest


@pytest.fixture
def token(sessions: sessionmaker[Session], tmp_path: Path) -> str:
    """The admin's token."""
    return admin_token(sessions, tmp_path / "token")


@pytest.fixture(scope="module")
def shared_token(
    shared_sessions: sessionmaker[Session], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The admin's token on the module's own database."""
    return admin_token(shared_sessions, tmp_path_factory.mktemp("admin") / "token")


def admin_token(sessions: sessionmaker[Session], path: Path) -> str:
    with sessions.begin() as session:
        tokens.ensure_admin_token(session, path)
    return path.read_text().strip()


@pytest.fixture
def worker(sessions: sessionmaker[Session], token: str) -> MadeUpWorker:
    """A live worker of the queue `cpu`, in the admin's service."""
    return made_up_worker(sessions, token)


@pytest.fixture(scope="module")
def shared_worker(shared_sessions: sessionmaker[Session], shared_token: str) -> MadeUpWorker:
    """A live worker on the module's own database."""
    return made_up_worker(shared_sessions, shared_token)


def made_up_worker(sessions: sessionmaker[Session], token: str) -> MadeUpWorker:
    with sessions.begin() as session:
        principal = tokens.authenticate(session, token)
    made = MadeUpWorker(sessions, principal)
    made.come("cpu")
    return made


@pytest.fixture(scope="session")
def chart_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the chart library, filled before the first chart."""
    folder = tmp_path_factory.mktemp("charts")
    charts_script(folder)
    return folder


@pytest.fixture
def server(settings: Settings, chart_cache: Path) -> Iterator[str]:
    """The address of a running server."""
    with serving(settings, chart_cache) as address:
        yield address


@pytest.fixture(scope="module")
def shared_server(shared_settings: Settings, chart_cache: Path) -> Iterator[str]:
    """The address of a server on the module's own database."""
    with serving(shared_settings, chart_cache) as address:
        yield address


@contextmanager
def serving(settings: Settings, chart_cache: Path, *, behind_proxy: bool = False) -> Generator[str]:
    (settings.data_dir / "cache").symlink_to(chart_cache)
    app = create_app(settings)
    with running_at(NearestProxy(app) if behind_proxy else app) as address:
        yield address


@contextmanager
def running_at(app: ASGIApp) -> Generator[str]:
    """Serve an application; yields its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not running.started:
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    port = running.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    running.should_exit = True
    thread.join(60)


@pytest.fixture
def reader(settings: Settings, token: str) -> Iterator[TestClient]:
    """Somebody who has signed in and reads pages, without a browser."""
    with reading(settings, token) as client:
        yield client


@pytest.fixture(scope="module")
def shared_reader(shared_settings: Settings, shared_token: str) -> Iterator[TestClient]:
    """A reader of the module's own database."""
    with reading(shared_settings, shared_token) as client:
        yield client


@contextmanager
def reading(settings: Settings, token: str) -> Generator[TestClient]:
    with TestClient(create_app(settings), follow_redirects=False, headers=PAGE) as client:
        answer = client.post("/login", data={"token": token, "next": "/"}, headers=HERE)
        assert answer.status_code == 303
        yield client


@pytest.fixture
def visitor(browser: Browser, server: str, token: str) -> Iterator[Visitor]:
    """A person at a wide window, with no hidden errors at the end."""
    with a_visitor(browser, server, token) as made:
        yield made
