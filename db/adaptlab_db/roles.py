"""The database roles of the API and of the workers, and their rights.

The roles are created if there are passwords for them. Every migration renews their rights, so that
tables and rights change together.
"""

from typing import LiteralString

from psycopg import Connection, connect
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Composed, Identifier
from sqlalchemy import make_url

from adaptlab_db.rights import PARTS, Part, grant
from adaptlab_db.role_passwords import RolePasswords, role_of

Psycopg = Connection[tuple[object, ...]]

# Any number that no other advisory lock on the server has.
LOCK = 0x72_6F_6C_65_73  # "roles"
_NO_POWERS: LiteralString = (
    "NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS"
)


def make_logins(url: str, passwords: RolePasswords) -> None:
    """Create both roles with these passwords.

    This requires the right to create roles.
    """
    parsed = make_url(url)
    address = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    with connect(address, connect_timeout=10) as connection:
        make_logins_by(connection, parsed.database or "", passwords)


def make_logins_by(connection: Psycopg, database: str, passwords: RolePasswords) -> None:
    """Create both roles, by a connection to any database of the server."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        for part in PARTS:
            role = role_of(database, part)
            if not _exists(connection, role):
                connection.execute(SQL("CREATE ROLE {} " + _NO_POWERS).format(Identifier(role)))
            elif _has_powers(connection, role):  # which only a superuser can take away
                connection.execute(SQL("ALTER ROLE {} " + _NO_POWERS).format(Identifier(role)))
            connection.execute(_login(connection, role, passwords.of(part)))


def grant_rights(connection: Psycopg, database: str) -> None:
    """Give the existing roles exactly their rights.

    It uses the transaction of the caller, who owns the tables. Without the roles, nothing happens.
    """
    assert connection.info.transaction_status == TransactionStatus.INTRANS
    tables = [
        str(name)
        for (name,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' "
            "UNION SELECT viewname FROM pg_views WHERE schemaname = 'public' ORDER BY 1"
        )
    ]
    for part in PARTS:
        role = role_of(database, part)
        if _exists(connection, role):
            for statement in _rights(part, role, tables):
                connection.execute(statement)


def _rights(part: Part, role: str, tables: list[str]) -> list[Composed]:
    name = Identifier(role)
    grants = [grant(part, role, table) for table in tables]
    return [
        SQL("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}").format(name),
        SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC, {}").format(name),
        SQL("GRANT USAGE ON SCHEMA public TO {}").format(name),
        *(statement for statement in grants if statement is not None),
    ]


def _exists(connection: Psycopg, role: str) -> bool:
    row = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    return row is not None


def _has_powers(connection: Psycopg, role: str) -> bool:
    query = """
        SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolinherit OR rolreplication
            OR rolbypassrls FROM pg_roles WHERE rolname = %s"""
    row = connection.execute(query, [role]).fetchone()
    return row == (True,)


def _login(connection: Psycopg, role: str, password: str) -> Composed:
    hashed = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    ).decode()
    return SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(Identifier(role), hashed)
