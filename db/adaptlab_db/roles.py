"""The roles of the API and of the workers: made, and given the rights that they have.

Made where passwords for them are known; their rights follow every migration, so that a table and
who may use it change together.
"""

from typing import LiteralString

from psycopg import Connection, connect
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Composed, Identifier
from sqlalchemy import make_url

from adaptlab_db.rights import PARTS, Part, grant
from adaptlab_db.role_passwords import RolePasswords, role_of

Psycopg = Connection[tuple[object, ...]]

# Any number will do that nothing else on the server takes an advisory lock on.
LOCK = 0x72_6F_6C_65_73  # "roles"
_NO_POWERS: LiteralString = (
    "NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS"
)


def make_logins(url: str, passwords: RolePasswords) -> None:
    """Let both roles sign in with these passwords; whoever asks has to be allowed to make roles."""
    parsed = make_url(url)
    address = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    with connect(address, connect_timeout=10) as connection:
        make_logins_by(connection, parsed.database or "", passwords)


def make_logins_by(connection: Psycopg, database: str, passwords: RolePasswords) -> None:
    """The same by a connection to any database of the server."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        for part in PARTS:
            role = role_of(database, part)
            if not _exists(connection, role):
                connection.execute(SQL("CREATE ROLE {} " + _NO_POWERS).format(Identifier(role)))
            elif _has_powers(connection, role):  # which only a superuser may take away
                connection.execute(SQL("ALTER ROLE {} " + _NO_POWERS).format(Identifier(role)))
            connection.execute(_login(connection, role, passwords.of(part)))


def grant_rights(connection: Psycopg, database: str) -> None:
    """Give the roles that there are exactly their rights, in the transaction of the caller.

    The caller owns the tables. Where there are no such roles nothing happens.
    """
    assert connection.info.transaction_status == TransactionStatus.INTRANS
    tables = [
        str(name)
        for (name,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        )
    ]
    for part in PARTS:
        role = role_of(database, part)
        if _exists(connection, role):
            for statement in _rights(part, role, tables):
                connection.execute(statement)


def _rights(part: Part, role: str, tables: list[str]) -> list[Composed]:
    name = Identifier(role)
    given = [grant(part, role, table) for table in tables]
    return [
        SQL("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}").format(name),
        SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC, {}").format(name),
        SQL("GRANT USAGE ON SCHEMA public TO {}").format(name),
        *(statement for statement in given if statement is not None),
    ]


def _exists(connection: Psycopg, role: str) -> bool:
    found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    return found is not None


def _has_powers(connection: Psycopg, role: str) -> bool:
    query = """
        SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolinherit OR rolreplication
            OR rolbypassrls FROM pg_roles WHERE rolname = %s"""
    found = connection.execute(query, [role]).fetchone()
    return found is not None and bool(found[0])


def _login(connection: Psycopg, role: str, password: str) -> Composed:
    kept = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    ).decode()
    return SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(Identifier(role), kept)
