"""Revisions go up and down, agree with the tables, and can run at once."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest
import typer
from sqlalchemy import make_url, text
from sqlalchemy.orm import Session, sessionmaker
from typer.testing import CliRunner

from adaptlab_db.cli import migrate
from adaptlab_db.errors import LAST_OF_0_1
from adaptlab_db.migrate import downgrade, drift, main, upgrade
from adaptlab_db.session import create_engine
from adaptlab_db.tables import Table

UPGRADES = Path(__file__).parents[2] / "docs/how-to/upgrade.md"
INITIAL = "0f52a7692ba412c885f3e364e3dfe3926d2261471fed2ebddb0d5f7d75650a01"
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
    "functions": "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "triggers": """
        SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid)
        FROM pg_trigger WHERE NOT tgisinternal""",
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
    for what in ("functions", "triggers"):
        assert migrated.pop(what)
        assert not made.pop(what)
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


def test_servers_that_start_at_once_migrate_once(empty_database_url: str) -> None:
    start = threading.Barrier(4)

    def run(_: int) -> None:
        start.wait()
        upgrade(empty_database_url)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
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


def test_what_was_released_is_never_edited() -> None:
    """Servers have run it; what changes is another revision.

    The digest is of the files whose result pg_dump found to be that of the 48 revisions before,
    but for spaces within two functions.
    """
    digest = hashlib.sha256()
    for name in ("tables.sql", "functions.sql"):
        digest.update((files("adaptlab_db.migrations") / "initial" / name).read_bytes())
    assert digest.hexdigest() == INITIAL


def test_the_page_on_upgrades_names_the_version_that_an_older_database_needs() -> None:
    assert f"git checkout {LAST_OF_0_1}" in UPGRADES.read_text()


def test_the_command_gives_the_next_step_of_an_older_database(database_url: str) -> None:
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0025'"))
    engine.dispose()
    application = typer.Typer()
    application.command()(migrate)
    done = CliRunner().invoke(application, ["--database-url", database_url])
    assert done.exit_code == 2
    assert LAST_OF_0_1 in done.output
