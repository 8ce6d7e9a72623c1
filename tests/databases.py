"""Databases of tests, made, emptied and dropped on a server that runs."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.errors import ObjectInUse, OperationalError
from sqlalchemy import make_url
from tests.connections import Kept, keep_connections_to, keep_no_connections_to

FREE_SECONDS = 60.0  # until nobody is left in a database whose processes were told to end
LEAVE_SECONDS = 0.5  # for connections that were closed just now, until a database is dropped
LARGEST = 2**19  # bytes of the tables of a database that is used again

TABLES = """
    SELECT relname FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname
"""
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> ALL(%s)
"""
CATALOGUES = {
    "pg_attrdef": "oid",
    "pg_attribute": "attrelid",
    "pg_class": "oid",
    "pg_constraint": "oid",
    "pg_database": "oid",
    "pg_db_role_setting": "setdatabase",
    "pg_default_acl": "oid",
    "pg_index": "indexrelid",
    "pg_proc": "oid",
    "pg_statistic": "starelid",
    "pg_trigger": "oid",
    "pg_type": "oid",
}
ENTRIES = " UNION ALL ".join(
    f"SELECT xmin FROM {name} WHERE {key} >= 16384"
    + (" AND datname = current_database()" if name == "pg_database" else "")
    for name, key in CATALOGUES.items()
)
STATE = f"""
    SELECT count(*), max(xmin::text::bigint), (SELECT sum(pg_relation_size(oid))
        FROM pg_class WHERE relkind IN ('r', 't') AND oid >= 16384)
    FROM ({ENTRIES} UNION ALL SELECT xmin FROM pg_namespace) AS entries
"""
"""How many entries the catalogues have, the last transaction that wrote one, and the bytes of all
tables. Whoever changes the schema, a setting, a permission or what the planner knows of the rows
adds, changes or removes an entry."""


@dataclass
class Reusable:
    """A database that tests use one after the other, empty for each.

    Attributes:
        first: what `STATE` found when it was created.
        rows: what the migrations have stored, by table, in the binary form of COPY.
        emptying: statements that leave a database without rows, with its sequences at the start.
    """

    url: str
    connection: psycopg.Connection
    first: tuple[Any, ...]
    rows: Sequence[tuple[sql.Identifier, bytes]]
    emptying: str
    kept: Kept

    @classmethod
    def open(cls, url: str) -> "Reusable":
        """Look at a new copy of a template."""
        plain = make_url(url).set(drivername="postgresql")
        address = plain.render_as_string(hide_password=False)
        connection = psycopg.connect(address, autocommit=True)
        kept = keep_connections_to(str(plain.database))
        names = [sql.Identifier(name) for (name,) in connection.execute(TABLES)]
        sequences = connection.execute("SELECT sequencename, last_value FROM pg_sequences")
        parts = [
            # Neither triggers nor foreign keys are looked at; some tables refuse to be changed.
            sql.SQL("SET LOCAL session_replication_role = replica"),
            *(sql.SQL("DELETE FROM {}").format(name) for name in names),
            *(
                sql.SQL("SELECT setval({}, {}, {})").format(
                    f'"{name}"', last or 1, last is not None
                )
                for name, last in sequences
            ),
        ]
        rows = [(name, content) for name in names if (content := _content(connection, name))]
        emptying = "; ".join(part.as_string(connection) for part in parts)
        return cls(url, connection, _one(connection, STATE), rows, emptying, kept)

    def is_reset(self) -> bool:
        """Empty it for the next test, or return False if that is not enough."""
        try:
            if not self._is_left() or not self._is_as_before():
                return False
            self._empty()
            self.kept.renew()
        except OperationalError:  # cut, as by a test of outages
            return False
        return True

    def _is_left(self) -> bool:
        """Return True if nobody else is connected, or will be gone soon."""
        until = time.monotonic() + LEAVE_SECONDS
        while _one(self.connection, OTHERS, [self.kept.processes()])[0]:
            if time.monotonic() > until:
                return False
            time.sleep(0.002)
        return True

    def _is_as_before(self) -> bool:
        """Return True if only rows have changed, and few."""
        *schema, size = _one(self.connection, STATE)
        return schema == [*self.first[:-1]] and size < self.first[-1] + LARGEST

    def _empty(self) -> None:
        """Leave the rows that the template has, and no others."""
        with self.connection.transaction():
            self.connection.execute(self.emptying.encode())
            for name, content in self.rows:
                into = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(name)
                with self.connection.cursor().copy(into) as copy:
                    copy.write(content)


class Databases:
    """Databases created over one connection, which is reopened when cut."""

    def __init__(self, server_url: str) -> None:
        self._server = make_url(server_url)
        self._connection: psycopg.Connection | None = None
        self._free: dict[str, list[Reusable]] = {}

    def __enter__(self) -> "Databases":
        return self

    def __exit__(self, *_: object) -> None:
        for free in self._free.values():
            while free:
                database = free.pop()
                database.connection.close()
                self._drop(database.url)
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def copy_of(self, template: str) -> Generator[str]:
        """A new copy of a database, dropped at the end even if in use."""
        url = self._create(template)
        try:
            yield url
        finally:
            self._drop(url)

    @contextmanager
    def like(self, template: str) -> Generator[str]:
        """A copy of the database `template`, or one that another test has left.

        To empty a database takes a tenth of the time of creating one. It is dropped instead if
        anybody is still connected, or if anything but few rows is different from the template.
        """
        free = self._free.setdefault(template, [])
        database = free.pop() if free else Reusable.open(self._create(template))
        is_free = False
        try:
            yield database.url
            is_free = database.is_reset()
        finally:
            if is_free:
                free.append(database)
            else:
                database.connection.close()
                self._drop(database.url)

    def _create(self, template: str) -> str:
        name = f"adaptlab_test_{secrets.token_hex(6)}"
        # The way for small templates takes less than the one through the log, which is the default.
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        return self._server.set(database=name).render_as_string(hide_password=False)

    def _drop(self, url: str) -> None:
        keep_no_connections_to(str(make_url(url).database))
        self._execute(f'DROP DATABASE IF EXISTS "{make_url(url).database}" WITH (FORCE)')

    def _execute(self, statement: str) -> None:
        """Execute the statement, and retry while the database is in use.

        Postgres waits five seconds for others to leave, then refuses.
        """
        until = time.monotonic() + FREE_SECONDS
        while True:
            connection = self._opened()
            try:
                connection.execute(statement.encode())
            except OperationalError as error:
                may_pass = isinstance(error, ObjectInUse) or connection.closed
                if not may_pass or time.monotonic() > until:
                    raise
            else:
                return

    def _opened(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            plain = self._server.set(drivername="postgresql")
            address = plain.render_as_string(hide_password=False)
            self._connection = psycopg.connect(address, autocommit=True)
        return self._connection


def shorten_password_checks(url: str) -> None:
    """Have passwords hashed once for a connection, not 4,096 times.

    The rounds, which the server names and the client makes, took a third of a connection's time.
    """
    address = make_url(url).set(drivername="postgresql")
    assert address.username
    assert isinstance(address.password, str)
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", address.password.encode(), salt, 1)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, *keys = (base64.b64encode(part).decode() for part in (salt, stored, server))
    secret = f"SCRAM-SHA-256$1:{salt_text}${':'.join(keys)}"  # RFC 5803
    change = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(address.username), secret)
    with psycopg.connect(address.render_as_string(hide_password=False)) as connection:
        connection.execute(change)


def _content(connection: psycopg.Connection, table: sql.Identifier) -> bytes:
    """The rows of a table as COPY writes them; nothing if it is empty."""
    if not _one(connection, sql.SQL("SELECT count(*) FROM {}").format(table))[0]:
        return b""
    out = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(table)
    with connection.cursor().copy(out) as copy:
        return b"".join(map(bytes, copy))


def _one(
    connection: psycopg.Connection, query: Any, values: Sequence[object] = ()
) -> tuple[Any, ...]:  # as psycopg has them
    row = connection.execute(query, values or None).fetchone()
    assert row is not None
    return row
