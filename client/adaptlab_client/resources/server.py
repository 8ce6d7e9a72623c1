"""The server's health, capabilities, workers and storage."""

from datetime import datetime
from email.utils import parsedate_to_datetime

from adaptlab_answers.server import Capabilities, Health, Workers, WorkerView
from adaptlab_answers.storage import StorageStatus
from adaptlab_client.transport.connection import Connection, Request, path_of


class ServerStatus:
    """The state of one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def alive(self) -> Health:
        """Check that the server answers, without a token.

        Raises `ServerUnreachable`.
        """
        return self._connection.ask(Request("GET", "/healthz"), Health)

    def ready(self) -> Health:
        """Check that the server and its database answer.

        Raises `ServerUnavailable` if they do not.
        """
        return self._connection.ask(Request("GET", "/readyz"), Health)

    def time(self) -> datetime | None:
        """Return the server's time in whole seconds, or None if it sends none.

        Raises `ServerUnreachable`.
        """
        date = self._connection.send(Request("GET", "/healthz")).headers.get("Date")
        try:
            return None if date is None else parsedate_to_datetime(date)
        except ValueError:
            return None

    def capabilities(self) -> Capabilities:
        """Return the server's version, limits and names."""
        return self._connection.ask(Request("GET", path_of("capabilities")), Capabilities)

    def storage(self) -> StorageStatus:
        """Return the numbers and sizes of artifacts, by store and state."""
        return self._connection.ask(Request("GET", path_of("storage")), StorageStatus)

    def workers(self) -> tuple[WorkerView, ...]:
        """Return the workers with the latest heartbeats, live ones first."""
        return self._connection.ask(Request("GET", path_of("workers")), Workers).data
