"""A database per module, for tests that only read what is stored."""

from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.databases import Databases

from adaptlab_db.session import close, session_factory
from adaptlab_services.settings import Settings


@pytest.fixture(scope="module")
def shared_database_url(databases: Databases, template_database: str) -> Iterator[str]:
    """A migrated database of the module's own."""
    with databases.like(template_database) as url:
        yield url


@pytest.fixture(scope="module")
def shared_sessions(shared_database_url: str) -> Iterator[sessionmaker[Session]]:
    """Sessions on the module's own database."""
    factory = session_factory(shared_database_url)
    yield factory
    close(factory)


@pytest.fixture(scope="module")
def shared_settings(
    shared_database_url: str, own_broker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """Settings for the module's database, data directory and broker.

    Tests may empty the broker.
    """
    return Settings(
        database_url=shared_database_url,
        broker_url=own_broker_url,
        data_dir=tmp_path_factory.mktemp("shared"),
        question_seconds=3600,  # as in `settings`
        sweep_seconds=3600,
        hub="off",
    )
