"""A worker's access to its ledger: by database or by API."""

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
from adaptlab_worker.ledger.api_connection import ApiConnection, open_connections
from adaptlab_worker.ledger.http_ledger import HttpLedger

TOKEN = "ADAPTLAB_TOKEN"


BROKER = "ADAPTLAB_BROKER_URL"
NO_BROKER = "redis://nowhere"


@dataclass(frozen=True, slots=True)
class Door:
    """The settings, ledger and doorbell of a worker.

    Attributes:
        settings: its own; without database or broker, their addresses are placeholders.
        ledger: the interface to jobs and results.
        ring: wakes other workers, by queue.
    """

    settings: Settings
    ledger: Ledger
    ring: Callable[[Sequence[str]], None]


@contextmanager
def open_door(server: str | None = None) -> Generator[Door]:
    """Open the door to the server at an address, or to the settings' database.

    The token for a server is in ADAPTLAB_TOKEN, in the file named by ADAPTLAB_TOKEN_FILE, or stored
    by `adaptlab login`. It is never an argument, which every user of the machine could see.

    With the database, a broker is optional: without one, other workers find work by polling.

    Raises:
        LedgerRefused: there is no token for the server, or its file cannot be read.
    """
    if server is not None:
        with _door_of_server(server, os.environ) as door:
            yield door
        return
    has_broker = any(os.environ.get(name) for name in (BROKER, f"{BROKER}_FILE"))
    defaults = {} if has_broker else {"broker_url": NO_BROKER}
    settings = Settings(**defaults)  # pyright: ignore[reportCallIssue, reportArgumentType] - the rest is in the environment
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
        destination = discover(server, secret(environment, TOKEN), environment=environment)
    except SecretUnreadable as error:
        raise LedgerRefused(str(error)) from error
    if destination.token is None:
        raise LedgerRefused(
            f"There is no token for {destination.url}. Ask an admin for one with the scope "
            f"`worker`. Then set {TOKEN} to it, or {TOKEN}_FILE to a file that contains it, or run "
            "`adaptlab login`."
        )
    connection = ApiConnection(open_connections(destination.url, destination.token))
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else it logs every request
    # Arguments take precedence over the environment, should it name any.
    settings = Settings(database_url="postgresql://nowhere/none", broker_url=NO_BROKER)
    try:
        yield Door(settings, HttpLedger(connection), _not_ring)
    finally:
        connection.close()


def _not_ring(queues: Sequence[str]) -> None:
    """Do nothing: the server rings, and without a broker workers poll."""
