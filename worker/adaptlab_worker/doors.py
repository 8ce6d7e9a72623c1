"""How a worker gets to its ledger: by the database beside it, or by a server's address alone."""

import logging
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from adaptlab_client.transport.discovery import discover
from adaptlab_db.secret_files import SecretUnreadable, secret
from adaptlab_db.session import close
from adaptlab_services.errors import LedgerRefused
from adaptlab_services.leases.leases import DatabaseLedger, Ledger
from adaptlab_services.lifecycle.doorbell import ring
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings
from adaptlab_worker.api_connection import ApiConnection, open_connections
from adaptlab_worker.http_ledger import HttpLedger

TOKEN = "ADAPTLAB_TOKEN"


BROKER = "ADAPTLAB_BROKER_URL"
NO_BROKER = "redis://nowhere"


@dataclass(frozen=True, slots=True)
class Door:
    """What a worker works with.

    Attributes:
        settings: its own; those of a database and a broker lead nowhere for one that has neither.
        ledger: the way to jobs and results.
        ring: wakes other workers, by queue.
    """

    settings: Settings
    ledger: Ledger
    ring: Callable[[Sequence[str]], None]


@contextmanager
def open_door(server: str | None = None) -> Generator[Door]:
    """The door of a worker to the server at an address, or else to the database of its settings.

    The token for a server is the one in ADAPTLAB_TOKEN, in the file that ADAPTLAB_TOKEN_FILE
    names, or that `adaptlab login` keeps; never an argument, which everybody on a machine sees.

    Beside the database a broker is not needed: without one, the others find their work by polling.

    Raises:
        LedgerRefused: there is no token for the server, or its file cannot be read.
    """
    if server is not None:
        with _door_of_server(server, os.environ) as door:
            yield door
        return
    has_broker = any(os.environ.get(name) for name in (BROKER, f"{BROKER}_FILE"))
    given = {} if has_broker else {"broker_url": NO_BROKER}
    settings = Settings(**given)  # pyright: ignore[reportCallIssue, reportArgumentType] - the rest is in the environment
    sessions = open_sessions(settings)
    ledger = DatabaseLedger(sessions, settings.lease_seconds, settings.max_running_jobs)
    try:
        yield Door(
            settings, ledger, partial(ring, settings.broker_url) if has_broker else _not_ring
        )
    finally:
        close(sessions)


@contextmanager
def _door_of_server(server: str, environment: Mapping[str, str]) -> Generator[Door]:
    try:
        found = discover(server, secret(environment, TOKEN), environment=environment)
    except SecretUnreadable as error:
        raise LedgerRefused(str(error)) from error
    if found.token is None:
        raise LedgerRefused(
            f"There is no token for {found.url}. Ask an admin for one with the scope `worker`. "
            f"Then set {TOKEN} to it, or {TOKEN}_FILE to a file that contains it, or run "
            "`adaptlab login`."
        )
    connection = ApiConnection(open_connections(found.url, found.token))
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else it tells of every request
    # Given here, these go before what the environment says, should it name any.
    settings = Settings(database_url="postgresql://nowhere/none", broker_url=NO_BROKER)
    try:
        yield Door(settings, HttpLedger(connection), _not_ring)
    finally:
        connection.close()


def _not_ring(queues: Sequence[str]) -> None:
    """The server has rung when it wrote the end down; where there is no broker, workers poll."""
