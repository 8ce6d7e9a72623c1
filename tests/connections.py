"""Connections that the tests' databases keep when an engine closes them.

Opening one takes 12 ms of Postgres and of the client, as much as ten statements, and most tests
open several. A database that is used again hands those of earlier tests to the engines of the next.
"""

import select
import threading
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

Connection = psycopg.Connection[Any]
Key = frozenset[tuple[str, object]]
"""What a connection was opened with."""

MOST = 8
"""Connections that a database keeps."""
AS_NEW = """
    SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all();
    DISCARD SEQUENCES
"""
"""Temporary tables are in the catalogue, so the database is not used again after them."""


class Kept:
    """The connections of one database that no engine has.

    Those that were closed since `renew` wait for it: a test gets none that it has used itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: dict[Key, list[Connection]] = defaultdict(list)
        self._closed: list[tuple[Key, Connection]] = []

    def taken(self, key: Key) -> Connection | None:
        """Take one that is as new, None if there is none."""
        with self._lock:
            ready = self._ready[key]
            while ready:
                connection = ready.pop()
                if _is_open(connection):
                    return connection
                connection.close()
        return None

    def put(self, key: Key, connection: Connection) -> None:
        """Keep one that an engine has closed, if it can be used again."""
        with self._lock:
            if _is_open(connection):
                self._closed.append((key, connection))
            else:
                connection.close()

    def renew(self) -> None:
        """Make those that were closed as new."""
        with self._lock:
            while self._closed:
                key, connection = self._closed.pop()
                if sum(map(len, self._ready.values())) < MOST and _is_renewed(connection):
                    self._ready[key].append(connection)
                else:
                    connection.close()

    def processes(self) -> list[int]:
        """The processes of Postgres behind them."""
        with self._lock:
            return [one.info.backend_pid for one in self._every() if not one.closed]

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            for connection in self._every():
                connection.close()
            self._ready.clear()
            self._closed.clear()

    def _every(self) -> Collection[Connection]:
        ready = [connection for several in self._ready.values() for connection in several]
        return [*ready, *(connection for _, connection in self._closed)]


_KEPT: dict[str, Kept] = {}
_KEYS: WeakKeyDictionary[Connection, tuple[Kept, Key]] = WeakKeyDictionary()


def keep_connections_to(database: str) -> Kept:
    """Keep connections to a database from now on."""
    return _KEPT.setdefault(database, Kept())


def keep_no_connections_to(database: str) -> None:
    """Close those to a database, and keep no more."""
    if kept := _KEPT.pop(database, None):
        kept.close()


def keep_connections() -> None:
    """Have the engines of this process take and leave connections here."""
    opened, closed = PGDialect_psycopg.connect, PGDialect_psycopg.do_close

    def connect(self: PGDialect_psycopg, *words: Any, **named: Any) -> Any:
        kept = _KEPT.get(str(named.get("dbname")))
        if kept is None or words:
            return opened(self, *words, **named)
        # The adapters are an object of each engine, and are made of these.
        made_of = (self._json_serializer, self._json_deserializer)  # pyright: ignore[reportPrivateUsage]
        key = frozenset({**named, "context": made_of}.items())
        connection: Any = kept.taken(key) or opened(self, **named)
        _KEYS[connection] = kept, key
        return connection

    def do_close(self: PGDialect_psycopg, dbapi_connection: Any) -> None:
        kept, key = _KEYS.pop(dbapi_connection, (None, frozenset()))
        if kept is None or kept not in _KEPT.values():
            closed(self, dbapi_connection)
        else:
            kept.put(key, dbapi_connection)

    PGDialect_psycopg.connect = connect
    PGDialect_psycopg.do_close = do_close


def _is_open(connection: Connection) -> bool:
    """Return True if it is in no transaction, and Postgres has not ended it."""
    if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _is_renewed(connection: Connection) -> bool:
    if not _is_open(connection):
        return False
    with suppress(psycopg.Error):
        connection.autocommit = True
        connection.execute(AS_NEW)
        connection.autocommit = False
        return True
    return False
