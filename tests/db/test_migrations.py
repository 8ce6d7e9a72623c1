"""Revisions go up and down, agree with the tables, and can run at once."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import ArtifactStore, streamed
from adaptlab_db.migrate import downgrade, drift, main, upgrade
from adaptlab_db.session import close, create_engine, session_factory
from adaptlab_db.tables import Table

CATALOGUE = {
    "columns": """
        SELECT table_name, column_name, udt_name, is_nullable, column_default, is_identity
        FROM information_schema.columns JOIN pg_tables ON tablename = table_name
        WHERE table_schema = 'public' AND schemaname = 'public'""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        AND contype <> 't'""",  # constraint triggers, which tables of the ORM do not have
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
}
OF_ALEMBIC = "alembic_version"


def catalogue(url: str) -> dict[str, set[tuple[object, ...]]]:
    """Everything that Postgres knows about our tables."""
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        rows = {
            what: connection.execute(query.encode()).fetchall() for what, query in CATALOGUE.items()
        }
    return {
        what: {(table, *rest) for table, *rest in found if table != OF_ALEMBIC}
        for what, found in rows.items()
    }


@pytest.fixture
def made_from_tables(empty_database_url: str) -> Iterator[str]:
    engine = create_engine(empty_database_url)
    Table.metadata.create_all(engine)
    yield empty_database_url
    engine.dispose()


def test_revisions_make_exactly_the_tables(database_url: str, made_from_tables: str) -> None:
    assert drift(database_url) == []
    migrated, made = catalogue(database_url), catalogue(made_from_tables)
    assert {view for view, _ in migrated.pop("views")} == {"shared_jobs"}
    assert made.pop("views") == set()  # the tables of the ORM have none
    assert migrated == made


def test_a_drift_is_found(database_url: str, sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE jobs ADD COLUMN surplus int"))
        session.execute(text("DROP INDEX ix_jobs_lanes"))
    found = "\n".join(drift(database_url))
    assert "surplus" in found
    assert "ix_jobs_lanes" in found


def test_every_revision_goes_up_down_and_up(empty_database_url: str) -> None:
    empty = catalogue(empty_database_url)
    upgrade(empty_database_url)
    full = catalogue(empty_database_url)
    downgrade(empty_database_url, "base")
    assert catalogue(empty_database_url) == empty
    upgrade(empty_database_url)
    assert catalogue(empty_database_url) == full


def test_without_seals_the_audit_log_stays_append_only(empty_database_url: str) -> None:
    upgrade(empty_database_url, "0024")
    before, guarded = catalogue(empty_database_url), append_only(empty_database_url)
    assert guarded == {"audit_entries", "audit_seals"}
    upgrade(empty_database_url)
    assert append_only(empty_database_url) == {"audit_entries"}
    downgrade(empty_database_url, "0024")
    assert (catalogue(empty_database_url), append_only(empty_database_url)) == (before, guarded)
    upgrade(empty_database_url)
    assert append_only(empty_database_url) == {"audit_entries"}


def append_only(url: str) -> set[str]:
    """The tables with an enabled trigger that refuses changes."""
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        rows = connection.execute(
            "SELECT tgrelid::regclass::text FROM pg_trigger"
            " WHERE tgname = 'append_only' AND tgenabled = 'O'"
        ).fetchall()
    return {table for (table,) in rows}


def test_servers_that_start_at_once_migrate_once(empty_database_url: str) -> None:
    start = threading.Barrier(4)

    def migrate(_: int) -> None:
        start.wait()
        upgrade(empty_database_url)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, range(4)))
    assert drift(empty_database_url) == []


def test_artifact_bytes_lie_outside_their_rows_uncompressed(
    sessions: sessionmaker[Session],
) -> None:
    query = "SELECT attstorage FROM pg_attribute WHERE attrelid = 'artifact_chunks'::regclass"
    with sessions() as session:
        storage = session.scalar(text(f"{query} AND attname = 'content'"))
    assert storage in ("e", b"e")


def test_the_check_is_a_command(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL", database_url)
    assert main(["--check"]) == 0


def test_the_command_says_when_no_database_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ADAPTLAB_DATABASE_URL", raising=False)
    assert main(["--check"]) == 2
    assert "ADAPTLAB_DATABASE_URL" in capsys.readouterr().err


def test_artifacts_of_the_revision_before_are_whole_after_it(empty_database_url: str) -> None:
    """Bytes of an earlier version can be read after upgrade and downgrade."""
    upgrade(empty_database_url, "0009")
    digest = hashlib.sha256(b"content").hexdigest()
    with written_directly(empty_database_url) as connection:
        connection.execute("INSERT INTO artifacts (sha256, size) VALUES (%s, 7)", [digest])
        connection.execute("INSERT INTO artifact_chunks VALUES (%s, 0, 'content')", [digest])
    upgrade(empty_database_url)
    sessions = session_factory(empty_database_url)
    assert b"".join(streamed(sessions, digest)) == b"content"
    with sessions.begin() as session:
        ArtifactStore(session).write([b"new"])
    downgrade(empty_database_url, "0009")
    with written_directly(empty_database_url) as connection:
        found = connection.execute("SELECT content FROM artifact_chunks ORDER BY 1").fetchall()
    assert found == [(b"content",), (b"new",)]
    close(sessions)


def test_what_lies_elsewhere_keeps_the_revision_from_being_taken_back(
    empty_database_url: str,
) -> None:
    upgrade(empty_database_url)
    with written_directly(empty_database_url) as connection:
        connection.execute(
            "INSERT INTO artifacts (sha256, size, store, key) VALUES ('aa', 7, 's3', 'aa/bb')"
        )
    with pytest.raises(RuntimeError, match="storage move --to postgres"):
        downgrade(empty_database_url, "0009")
    assert drift(empty_database_url) == []


@contextmanager
def written_directly(url: str) -> Iterator[psycopg.Connection]:
    """A plain connection, without our tables, as earlier versions wrote."""
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        yield connection
