"""Revisions go up and down, agree with the tables, and may be started twice at once."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.migrate import downgrade, drift, main, upgrade
from adaptlab_db.session import create_engine
from adaptlab_db.tables import Table

CATALOGUE = {
    "columns": """
        SELECT table_name, column_name, udt_name, is_nullable, column_default, is_identity
        FROM information_schema.columns WHERE table_schema = 'public'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
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
    return {what: {row for row in found if row[0] != OF_ALEMBIC} for what, found in rows.items()}


@pytest.fixture
def made_from_tables(empty_database_url: str) -> Iterator[str]:
    engine = create_engine(empty_database_url)
    Table.metadata.create_all(engine)
    yield empty_database_url
    engine.dispose()


def test_revisions_make_exactly_the_tables(database_url: str, made_from_tables: str) -> None:
    assert drift(database_url) == []
    assert catalogue(database_url) == catalogue(made_from_tables)


def test_a_drift_is_found(database_url: str, sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE jobs ADD COLUMN surplus int"))
        session.execute(text("DROP INDEX ix_jobs_claim"))
    found = "\n".join(drift(database_url))
    assert "surplus" in found
    assert "ix_jobs_claim" in found


def test_every_revision_goes_up_down_and_up(empty_database_url: str) -> None:
    empty = catalogue(empty_database_url)
    upgrade(empty_database_url)
    full = catalogue(empty_database_url)
    downgrade(empty_database_url, "base")
    assert catalogue(empty_database_url) == empty
    upgrade(empty_database_url)
    assert catalogue(empty_database_url) == full


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
