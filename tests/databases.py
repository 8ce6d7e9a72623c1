"""Databases of tests, made and dropped on a server that runs."""

import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg.errors import ObjectInUse, OperationalError
from sqlalchemy import make_url

FREE_SECONDS = 60.0  # until nobody is left in a database whose processes were told to end


class Databases:
    """Databases created over one connection, which is reopened when cut."""

    def __init__(self, server_url: str) -> None:
        self._server = make_url(server_url)
        self._connection: psycopg.Connection | None = None

    def __enter__(self) -> "Databases":
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def copy_of(self, template: str) -> Generator[str]:
        """A copy of the database `template`, dropped at the end even if in use."""
        name = f"adaptlab_test_{secrets.token_hex(6)}"
        # The way for small templates takes less than the one through the log, which is the default.
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        try:
            yield self._server.set(database=name).render_as_string(hide_password=False)
        finally:
            self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

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
