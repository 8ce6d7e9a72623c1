"""A Valkey server of one's own below a data directory: the Celery broker."""

import os
import signal
from dataclasses import dataclass

import redis

from adaptlab_stack.binaries import ValkeyProgram, find_valkey
from adaptlab_stack.data_directory import DataDirectory, write_private
from adaptlab_stack.ports import LOOPBACK, free_port
from adaptlab_stack.process import ProcessSpec, StopStep

STOP = (StopStep(signal.SIGTERM, 1.0),)


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    """A Valkey server that is ready to be started; made by `prepare`."""

    directory: DataDirectory
    program: ValkeyProgram
    port: int

    @classmethod
    def prepare(cls, directory: DataDirectory) -> "EmbeddedValkey":
        """Find the program, choose a port and write the configuration.

        Raises:
            ServerNotFound: neither Valkey nor Redis is installed.
        """
        made = cls(directory, find_valkey(), free_port())
        directory.valkey.mkdir(mode=0o700, exist_ok=True)
        write_private(directory.valkey / "valkey.conf", made._configuration())
        return made

    @property
    def url(self) -> str:
        """The address of the broker, with its password."""
        return f"redis://:{self.directory.credentials().valkey}@{LOOPBACK}:{self.port}/0"

    @property
    def description(self) -> str:
        """Where the server listens and whose program it is, without the password."""
        return f"{LOOPBACK}:{self.port} ({self.program.path.name}, {self.program.source})"

    def process(self) -> ProcessSpec:
        """How to run the server."""
        return ProcessSpec(
            name="valkey",
            # Relative to the working directory, so that no path needs quoting.
            argv=(str(self.program.path), "valkey.conf"),
            environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
            directory=self.directory.valkey,
            ready=self._is_ready,
            stop=STOP,
            stop_stage=1,
            # Gone at once, so that the next start finds the append-only file unused; what was
            # written stays written.
            parent_death_signal=signal.SIGKILL,
        )

    def _configuration(self) -> str:
        return "\n".join(
            (
                f"bind {LOOPBACK}",
                f"port {self.port}",
                f"requirepass {self.directory.credentials().valkey}",
                "dir .",
                'save ""',
                "appendonly yes",
                "",
            )
        )

    def _is_ready(self) -> bool:
        try:
            # redis-py leaves the keyword arguments of these two without types.
            client = redis.Redis.from_url(self.url, socket_timeout=2)  # pyright: ignore[reportUnknownMemberType]
            with client:
                return client.ping()  # pyright: ignore[reportUnknownMemberType]
        except (redis.ConnectionError, redis.TimeoutError):
            return False
