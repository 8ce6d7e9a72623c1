"""A real server over a real socket, and the command line beside it."""

import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple
from uuid import UUID

import pytest
import typer.main
import typer.testing
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_token
from tests.patience import patient_comparisons
from typer.testing import CliRunner, Result

from adaptlab_api.app import create_app
from adaptlab_api.server import Server
from adaptlab_client import Client
from adaptlab_client.cli.main import application
from adaptlab_services.settings import Settings

__all__ = ["patient_comparisons"]  # found here by pytest

Invoke = Callable[..., Result]

# To make the tree of commands takes longer than to run most of them.
kept_application = cache(application)
kept_commands = cache(typer.main.get_command)


class Address(NamedTuple):
    """Where the test's server listens, and a token for it."""

    url: str
    token: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the client finds it."""
        return {"ADAPTLAB_URL": self.url, "ADAPTLAB_TOKEN": self.token}


@contextmanager
def listening(settings: Settings, sessions: sessionmaker[Session]) -> Generator[Address]:
    """A server on that database."""
    with sessions.begin() as session:
        token = a_token(session)
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(create_app(settings), "127.0.0.1", 0)
    started = threading.Event()
    original = server.startup

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await original(sockets)
        started.set()

    server.startup = startup  # uvicorn does not tell otherwise when it listens
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        assert started.wait(60), "the server did not start"
        yield Address(f"http://127.0.0.1:{listener.getsockname()[1]}", token)
    finally:
        server.leave()
        thread.join(60)
        listener.close()


@pytest.fixture
def address(settings: Settings, sessions: sessionmaker[Session]) -> Iterator[Address]:
    """A server on the test's own database."""
    with listening(settings, sessions) as there:
        yield there


@pytest.fixture(scope="module")
def shared_address(
    shared_settings: Settings, shared_sessions: sessionmaker[Session]
) -> Iterator[Address]:
    """A server on the module's own database, for tests that only read."""
    with listening(shared_settings, shared_sessions) as there:
        yield there


@pytest.fixture(scope="module")
def shared_client(shared_address: Address) -> Iterator[Client]:
    """A client of the module's server."""
    with Client(*shared_address) as connected:
        yield connected


@pytest.fixture
def client(address: Address) -> Iterator[Client]:
    """A client of the test's server."""
    with Client(*address) as connected:
        yield connected


@pytest.fixture
def invoke(address: Address, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """The command line against the test's server: `invoke("jobs", "list")`."""
    return command_line(address, monkeypatch)


@pytest.fixture
def shared_invoke(shared_address: Address, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """The command line against the module's server."""
    return command_line(shared_address, monkeypatch)


def command_line(address: Address, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.setattr(typer.testing, "_get_command", kept_commands)

    def call(*arguments: str | UUID, given: str | bytes = "", **environment: str) -> Result:
        known = address.environment | environment
        return CliRunner().invoke(
            kept_application(), [*map(str, arguments)], env=known, input=given
        )

    return call
