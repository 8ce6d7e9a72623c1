"""Connections of long processes have limits; addresses are normalised."""

import pytest
from sqlalchemy import Engine, make_url, select, text
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker
from tests.patience import OWN_LIMITS
from typer import Typer
from typer.testing import CliRunner

from adaptlab_db import session as db_session
from adaptlab_db.cli import migrate
from adaptlab_db.migrate import drift
from adaptlab_db.session import create_engine, normalised_url, one_by_one


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_way_to_write_the_scheme_means_psycopg_3(scheme: str) -> None:
    url = normalised_url(f"{scheme}://lab:p%40ss@host:5433/name?sslmode=require")
    assert url == "postgresql+psycopg://lab:p%40ss@host:5433/name?sslmode=require"


def test_another_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="sqlite"):
        normalised_url("sqlite:///file.db")


def setting(engine: Engine, name: str) -> str:
    with engine.connect() as connection:
        return str(connection.scalar(select(text(f"current_setting('{name}')"))))


@pytest.mark.parametrize(
    ("name", "limited", "unlimited"),
    [
        ("idle_in_transaction_session_timeout", "5s", "0"),
        ("statement_timeout", "30s", "0"),
        ("lock_timeout", "2s", "0"),
        ("jit", "off", "on"),
    ],
)
def test_only_migrations_may_take_their_time(
    database_url: str, name: str, limited: str, unlimited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db_session, "LIMITS", OWN_LIMITS)
    for is_limited, expected in ((True, limited), (False, unlimited)):
        engine = create_engine(database_url, limited=is_limited)
        assert setting(engine, name) == expected
        engine.dispose()


def test_a_lost_connection_is_replaced(database_url: str, sessions: sessionmaker[Session]) -> None:
    """A restart of Postgres ends all connections, so the pool tests each."""
    with sessions() as session:
        lost = session.scalar(text("SELECT pg_backend_pid()"))
    engine = create_engine(database_url)
    with engine.begin() as connection:
        # The second argument has it wait until that connection has ended.
        ended = connection.scalar(text("SELECT pg_terminate_backend(:lost, 60000)"), {"lost": lost})
    engine.dispose()
    assert ended
    with sessions() as session:
        assert session.scalar(text("SELECT pg_backend_pid()")) != lost


def test_a_connection_as_it_was_left_is_handed_out_without_a_question(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(PGDialect_psycopg, "do_ping", lambda _, one: asked.append(one) or True)
    engine = create_engine(database_url)
    with engine.connect() as connection:
        first = connection.scalar(text("SELECT pg_backend_pid()"))
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT pg_backend_pid()")) == first
    engine.dispose()
    assert asked == []


def test_a_server_that_is_away_is_an_error_at_once() -> None:
    engine = create_engine("postgresql://lab@127.0.0.1:1/adaptlab")
    with pytest.raises(OperationalError), engine.connect():
        pass
    engine.dispose()


def test_the_command_migrates(empty_database_url: str) -> None:
    application = Typer()
    application.command()(migrate)
    done = CliRunner().invoke(application, ["--database-url", empty_database_url])
    assert done.exit_code == 0, done.output
    assert make_url(empty_database_url).password not in done.output.split()
    assert drift(empty_database_url) == []


def test_statements_one_by_one_are_kept_at_once_and_others_are_not(
    sessions: sessionmaker[Session],
) -> None:
    with one_by_one(sessions) as session:
        session.execute(text("CREATE TABLE kept AS SELECT 1 AS number"))
        with sessions() as other:  # nobody has said that it is to be kept
            assert other.scalar(text("SELECT number FROM kept")) == 1
    with sessions() as session, sessions() as other:  # by the same connections
        for number, undone in enumerate((session, other)):
            undone.execute(text("UPDATE kept SET number = :number"), {"number": 2 + number})
            undone.rollback()
    with sessions() as session:
        assert session.scalar(text("SELECT number FROM kept")) == 1
