"""The audit log of a server."""

from collections.abc import Iterator

from adaptlab_answers.people import AuditView
from adaptlab_client.transport.connection import Connection, Query, path_of
from adaptlab_client.transport.paging import entries


class AuditLog:
    """The audit log of one server, for admins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, query: Query | None = None) -> Iterator[AuditView]:
        """Iterate over the entries, newest first.

        The query can have `actor`, `action`, `object`, `since` and `until`.
        """
        return entries(self._connection, path_of("audit"), AuditView, query or {})
