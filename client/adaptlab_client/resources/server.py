"""The server about itself: whether it is well, what it knows, who works for it, what it stores."""

from datetime import datetime
from email.utils import parsedate_to_datetime

from adaptlab_answers.server import Capabilities, Health, Workers, WorkerView
from adaptlab_answers.storage import StorageStatus
from adaptlab_client.transport.connection import Connection, Request, path_of


class ServerStatus:
    """How one server is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def alive(self) -> Health:
        """A sign of life, which needs no token; raises `ServerUnreachable`."""
        return self._connection.ask(Request("GET", "/healthz"), Health)

    def ready(self) -> Health:
        """That it and its database answer; raises `ServerUnavailable` while they do not."""
        return self._connection.ask(Request("GET", "/readyz"), Health)

    def time(self) -> datetime | None:
        """The server's time in whole seconds, if it tells; raises `ServerUnreachable`."""
        told = self._connection.send(Request("GET", "/healthz")).headers.get("Date")
        try:
            return None if told is None else parsedate_to_datetime(told)
        except ValueError:
            return None

    def capabilities(self) -> Capabilities:
        """Its version, limits and names."""
        return self._connection.ask(Request("GET", path_of("capabilities")), Capabilities)

    def storage(self) -> StorageStatus:
        """What it stores where, and how much of it is damaged or was collected."""
        return self._connection.ask(Request("GET", path_of("storage")), StorageStatus)

    def workers(self) -> tuple[WorkerView, ...]:
        """The workers heard of last, live ones first."""
        return self._connection.ask(Request("GET", path_of("workers")), Workers).data
