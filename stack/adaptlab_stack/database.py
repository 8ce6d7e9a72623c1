"""The database for a command on this machine, running or started for it."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from adaptlab_services.settings import Settings
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.postgres import EmbeddedPostgres
from adaptlab_stack.supervisor import Supervisor
from adaptlab_stack.up import BROKER_URL, DATABASE_URL, given_address
from adaptlab_stack.waiting import Polling

NO_BROKER = "redis://127.0.0.1:0"  # these commands send no messages


@contextmanager
def reachable_database(data_dir: Path) -> Generator[str]:
    """Yield the database's address: configured, running here, or started.

    A server that is started runs only during the block. Call it in the main thread.

    Raises:
        StackError: the embedded server cannot be started.
    """
    configured = given_address(DATABASE_URL, os.environ)
    directory = DataDirectory.open(data_dir)
    if configured:
        yield configured
    elif directory.holder() is not None:
        yield directory.read_state().endpoints.database_url
    else:
        with directory.locked():
            supervisor = Supervisor(Polling(), directory.log, report=lambda _: None)
            postgres = EmbeddedPostgres.prepare(directory)
            try:
                supervisor.start([postgres.process()])
                yield postgres.url
            finally:
                supervisor.stop()


def settings_for(database_url: str, data_dir: Path) -> Settings:
    """Return a server's settings with this database, otherwise as configured."""
    return Settings(
        database_url=database_url,
        broker_url=given_address(BROKER_URL, os.environ) or NO_BROKER,
        data_dir=data_dir,
    )
