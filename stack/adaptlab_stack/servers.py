"""Postgres and Valkey together, without the rest of the stack."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.postgres import EmbeddedPostgres
from adaptlab_stack.supervisor import Supervisor
from adaptlab_stack.valkey import EmbeddedValkey
from adaptlab_stack.waiting import Polling

__all__ = ["EmbeddedPostgres", "EmbeddedValkey", "Servers", "embedded_servers"]


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses of two running servers, with their passwords."""

    database_url: str
    broker_url: str


@contextmanager
def embedded_servers(data_dir: Path, *, durable: bool = True) -> Generator[Servers]:
    """Run Postgres and Valkey as children of this process during the block.

    Call it in the main thread. The servers are not supervised: one that dies is not restarted.

    Args:
        data_dir: created if it does not exist; used by one process at a time.
        durable: False switches fsync off. For tests only: a power cut loses the cluster.

    Raises:
        StackError: see `adaptlab_stack.errors`.
    """
    directory = DataDirectory.open(data_dir)
    with directory.locked():
        supervisor = Supervisor(Polling(), directory.log, report=lambda _: None)
        postgres = EmbeddedPostgres.prepare(directory, durable=durable)
        valkey = EmbeddedValkey.prepare(directory)
        try:
            supervisor.start([postgres.process(), valkey.process()])
            yield Servers(postgres.url, valkey.url)
        finally:
            supervisor.stop()
