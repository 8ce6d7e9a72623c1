"""A Postgres and a Valkey that can be killed and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.conftest import memory_folder

from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.postgres import EmbeddedPostgres
from adaptlab_stack.process import ProcessSpec, kill_group, spawn
from adaptlab_stack.valkey import EmbeddedValkey

START_SECONDS = 60.0
LOOK_SECONDS = 0.05
# Where a commit does not wait for the log, these keep the log in memory for long.
LAZY_LOG = ("-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=512MB")


@dataclass
class Server:
    """One server process, started and ended from the main thread only."""

    spec: ProcessSpec
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it and wait until it serves, with repeated attempts."""
        deadline = time.monotonic() + START_SECONDS
        self.process = spawn(self.spec, self.log)
        while not self.spec.ready():
            assert time.monotonic() < deadline, self.log.read_text()[-2000:]
            time.sleep(LOOK_SECONDS)
            if self.process.poll() is not None:  # what was killed is not quite gone yet
                self.process = spawn(self.spec, self.log)

    def end(self, with_signal: signal.Signals = signal.SIGKILL) -> None:
        """End it, without a word by default; returns when it is gone."""
        if self.process is not None:
            self.process.send_signal(with_signal)
            self.process.wait(timeout=30)
            kill_group(self.process)
            self.process = None


@dataclass(frozen=True)
class KillableServers:
    """Both, and their addresses."""

    postgres: Server
    valkey: Server
    database_url: str
    broker_url: str


@contextmanager
def killable_servers() -> Generator[KillableServers]:
    """Run both in the block; commits survive a killed process."""
    folder = Path(tempfile.mkdtemp(prefix="adaptlab-chaos-", dir=memory_folder()))
    folder.chmod(0o755)
    try:
        directory = DataDirectory.open(folder / "data")
        postgres = EmbeddedPostgres.prepare(directory, durable=True)
        valkey = EmbeddedValkey.prepare(directory)
        spec = postgres.process()
        servers = KillableServers(
            Server(replace(spec, argv=(*spec.argv, *LAZY_LOG)), directory.log("postgres")),
            Server(valkey.process(), directory.log("valkey")),
            postgres.url,
            valkey.url,
        )
        try:
            servers.valkey.start()
            servers.postgres.start()
            yield servers
        finally:
            servers.postgres.end(signal.SIGQUIT)
            servers.valkey.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_alive(pid: int) -> bool:
    """Whether a process that is not our child is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
