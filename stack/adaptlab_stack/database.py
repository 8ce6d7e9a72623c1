"""The database that a command on this machine works on, running or started for the while."""

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
    """The address of the database: given, of the stack that runs here, or started for the block.

    To be called in the main thread.

    Raises:
        StackError: the embedded server cannot be started.
    """
    given = given_address(DATABASE_URL)
    directory = DataDirectory.open(data_dir)
    if given:
        yield given
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
    """The settings of a server on this database; the rest is from the environment."""
    return Settings(
        database_url=database_url,
        broker_url=given_address(BROKER_URL) or NO_BROKER,
        data_dir=data_dir,
    )
