"""Migrations: upgrade, downgrade and comparison of tables with revisions.

`python -m adaptlab_db.migrate` brings the database at ADAPTLAB_DATABASE_URL up to date;
`--check` compares a scratch database on that server, migrated from nothing, with the tables.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import cast

import psycopg
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, make_url, text

from adaptlab_db.errors import OLDEST, TablesTooOld
from adaptlab_db.roles import Psycopg, grant_rights
from adaptlab_db.session import create_engine, normalised_url
from adaptlab_db.tables import Table

# Any number that no other advisory lock on the server has.
LOCK = 0x61_64_61_70_74  # "adapt"
LOCK_TIMEOUT = "5s"


def upgrade(url: str, revision: str = "head") -> None:
    """Upgrade the database to `revision`.

    If several processes try, one does and all return. The roles of the API and the workers, if they
    exist, get the rights of that revision.

    Raises:
        TablesTooOld: an earlier version has to upgrade the database first.
    """
    with _locked(url) as connection:
        refuse_too_old(MigrationContext.configure(connection).get_current_revision())
        command.upgrade(_configuration(connection), revision)
        grant_rights(_driver(connection), str(connection.engine.url.database))


def refuse_too_old(revision: str | None) -> None:
    """Raise `TablesTooOld` for a revision before the oldest one here."""
    if revision is not None and revision.isdecimal() and int(revision) < int(OLDEST):
        raise TablesTooOld(revision)


def downgrade(url: str, revision: str) -> None:
    """Downgrade the database to `revision`; `base` empties it."""
    with _locked(url) as connection:
        command.downgrade(_configuration(connection), revision)


def new_revision(url: str, message: str) -> None:
    """Write a revision file for the difference of tables and database.

    The file is to be edited by hand.
    """
    with _locked(url) as connection:
        command.revision(_configuration(connection), message, autogenerate=True)


def drift(url: str) -> list[str]:
    """Return the differences of the database at `url` from the tables.

    Each difference is one line.
    """
    engine = create_engine(url, limited=False)
    try:
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_server_default": True})
            return [repr(difference) for difference in compare_metadata(context, Table.metadata)]
    finally:
        engine.dispose()


@contextmanager
def scratch_database(url: str) -> Generator[str]:
    """Create an empty database on the server of `url`, and drop it at the end."""
    name = f"adaptlab_scratch_{secrets.token_hex(6)}"
    _execute_outside_transaction(url, f'CREATE DATABASE "{name}" TEMPLATE template0')
    try:
        yield make_url(normalised_url(url)).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute_outside_transaction(url, f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def _locked(url: str) -> Generator[Connection]:
    """Open one transaction for all revisions.

    It is open in one process per database at a time.
    """
    engine = create_engine(url, limited=False)
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            # A change of tables that waits for a long reader would block everybody else.
            connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
            yield connection
    finally:
        engine.dispose()


def _driver(connection: Connection) -> Psycopg:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return cast("Psycopg", driver)


def _configuration(connection: Connection) -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", "adaptlab_db:migrations")
    configuration.attributes["connection"] = connection
    return configuration


def _execute_outside_transaction(url: str, statement: str) -> None:
    engine = create_engine(url, limited=False)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()


def main(arguments: Sequence[str]) -> int:
    """Run the command line.

    Returns 0 for success, 1 for a drift, and 2 without a database.
    """
    parser = argparse.ArgumentParser(prog="python -m adaptlab_db.migrate", description=__doc__)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="compare revisions with tables")
    choice.add_argument("--new", metavar="MESSAGE", help="write a revision for the difference")
    options = parser.parse_args(arguments)
    url = os.environ.get("ADAPTLAB_DATABASE_URL")
    if not url:
        _say("ADAPTLAB_DATABASE_URL is not set; give the address of a Postgres server.")
        return 2
    if options.check:
        return _check(url)
    if options.new:
        new_revision(url, options.new)
    else:
        upgrade(url)
    return 0


def _check(url: str) -> int:
    with scratch_database(url) as scratch:
        upgrade(scratch)
        differences = drift(scratch)
    for difference in differences:
        _say(difference)
    return 1 if differences else 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
