"""A database that is away for a while, for everybody who uses it."""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from sqlalchemy import make_url

# The second argument has it wait until each has ended.
REFUSE = """
    SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s
"""


@contextmanager
def outage(server_url: str, database_url: str) -> Generator[None]:
    """Cut all connections to the database and admit none in the block."""
    server = make_url(server_url).set(drivername="postgresql")
    name = str(make_url(database_url).database)
    address = server.render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        connection.execute(REFUSE.encode(), (name,))
    try:
        yield
    finally:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
