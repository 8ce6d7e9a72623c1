"""The application in this process, on a database, and an admin."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.conftest import memory_folder
from tests.databases import Databases
from tests.making import a_base_model, a_token

from adaptlab_api.app import create_app
from adaptlab_db.migrate import upgrade
from adaptlab_db.session import close, session_factory
from adaptlab_services.settings import Settings
from adaptlab_stack.servers import embedded_servers

RATES = (
    "read_rate",
    "read_burst",
    "write_rate",
    "write_burst",
    "wrong_tokens_per_minute",
    "sign_ins_per_minute",
)
UNHURRIED: dict[str, int] = {**dict.fromkeys(RATES, 10**9)}
"""Whoever tries ten thousands of requests must not be asked to wait; that is tested elsewhere."""


@contextmanager
def a_server() -> Generator[tuple[Settings, sessionmaker[Session]]]:
    """Settings and sessions of a migrated database, while the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="adaptlab-security-", dir=memory_folder()))
    folder.chmod(0o755)
    try:
        with (
            embedded_servers(folder / "data", durable=False) as servers,
            Databases(servers.database_url) as databases,
            databases.copy_of("template0") as url,
        ):
            upgrade(url)
            sessions = session_factory(url)
            settings = Settings(database_url=url, broker_url=servers.broker_url, data_dir=folder)
            yield settings, sessions
            close(sessions)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def asking(settings: Settings, sessions: sessionmaker[Session]) -> Generator[TestClient]:
    """A client with every scope and no rate limit, and a base model."""
    with sessions.begin() as session:
        token = a_token(session)
        a_base_model(session)
    unhurried = settings.model_copy(update=UNHURRIED)
    with TestClient(
        create_app(unhurried), raise_server_exceptions=False, follow_redirects=False
    ) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        yield client
