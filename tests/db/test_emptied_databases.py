"""A database is empty for the next test, or is not used again."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import text
from tests.databases import LARGEST, Databases

from adaptlab_db.session import close, session_factory

MANY = (
    "INSERT INTO projects (name) SELECT repeat('x', 50) || n "
    f"FROM generate_series(1, {LARGEST // 50}) AS n"
)
NEW_PROJECT = "INSERT INTO projects (name) VALUES ('another') RETURNING id"


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    address = url.replace("+psycopg", "")
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


def left_by(databases: Databases, template: str, *statements: str) -> tuple[str, str]:
    """The databases of a test that executes these, and of the next."""
    with databases.like(template) as first, connected(first) as connection:
        for statement in statements:
            connection.execute(statement.encode())
    with databases.like(template) as second:
        return first, second


def test_rows_are_gone_and_numbers_begin_again(
    databases: Databases, template_database: str
) -> None:
    seen: list[tuple[str, object, object]] = []
    for _ in range(2):
        with databases.like(template_database) as url, connected(url) as connection:
            before = connection.execute("SELECT * FROM projects").fetchall()
            made = connection.execute(NEW_PROJECT).fetchone()
            seen.append((url, before, made))
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == 1, "what the migrations have stored"  # pyright: ignore[reportArgumentType]


def test_a_log_that_nobody_may_change_is_emptied_as_well(
    databases: Databases, template_database: str
) -> None:
    entry = "INSERT INTO audit_entries (action, status, request_id) VALUES ('a', 201, 'r')"
    revision = "UPDATE alembic_version SET version_num = 'x'"
    first, second = left_by(databases, template_database, entry, revision)
    assert first == second
    with databases.like(template_database) as url, connected(url) as connection:
        entries = connection.execute("SELECT count(*) FROM audit_entries").fetchone()
        (version,) = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    assert entries == (0,)
    assert version != ("x",)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE jobs ADD COLUMN surplus int",
        "ALTER TABLE jobs ALTER attempts_max SET DEFAULT 7",
        "ALTER TABLE jobs DISABLE TRIGGER ALL",
        "ALTER TABLE jobs ADD CHECK (false) NOT VALID",
        "DROP INDEX ix_jobs_lanes",
        "CREATE TABLE mine (word text)",
        "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE SCHEMA mine",
        "GRANT SELECT ON jobs TO PUBLIC",
        "GRANT CREATE ON SCHEMA public TO PUBLIC",
        "ANALYZE projects",
        "TRUNCATE metric_points",
        "DO $$ BEGIN EXECUTE format("
        "'ALTER DATABASE %I SET work_mem = 64', current_database()); END $$",
        MANY,
    ],
)
def test_whatever_else_was_changed_is_not_met_by_the_next_test(
    databases: Databases, template_database: str, statement: str
) -> None:
    first, second = left_by(databases, template_database, statement)
    assert first != second


def test_nobody_who_is_still_connected_meets_the_next_test(
    databases: Databases, template_database: str
) -> None:
    with databases.like(template_database) as first:
        late = psycopg.connect(first.replace("+psycopg", ""))
    with databases.like(template_database) as second:
        assert first != second
    with pytest.raises(psycopg.OperationalError):
        late.execute("SELECT 1")
    late.close()


def test_a_connection_that_is_used_again_is_as_new(
    databases: Databases, template_database: str
) -> None:
    seen: list[tuple[object, ...]] = []
    for _ in range(2):
        with databases.like(template_database) as url:
            sessions = session_factory(url)
            with sessions.begin() as session:
                found = (
                    "SELECT pg_backend_pid(), current_setting('work_mem'), (SELECT count(*) FROM "
                    "pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())"
                )
                seen.append(tuple(session.execute(text(found)).one()))
                session.execute(text("SET work_mem = 64"))
                session.execute(text("SELECT pg_advisory_lock(7)"))
            close(sessions)
    assert seen[0] == seen[1], "the same process, without the settings and locks"


def test_a_test_gets_no_connection_that_it_has_closed(
    databases: Databases, template_database: str
) -> None:
    processes: set[object] = set()
    with databases.like(template_database) as url:
        for _ in range(2):
            sessions = session_factory(url)
            with sessions.begin() as session:
                processes.add(session.execute(text("SELECT pg_backend_pid()")).scalar_one())
            close(sessions)
    assert len(processes) == 2
