"""A Valkey server of one's own below a data directory: the Celery broker."""

import os
import signal
from dataclasses import dataclass

import redis

from adaptlab_db.rights import Part
from adaptlab_stack.binaries import ValkeyProgram, find_valkey
from adaptlab_stack.data_directory import DataDirectory, write_private
from adaptlab_stack.ports import LOOPBACK, free_port
from adaptlab_stack.process import ProcessSpec, StopStep
from adaptlab_stack.valkey_users import OWNER, USERS, users_file

USERS_FILE = "users.acl"
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
        known = directory.credentials()
        users = users_file(
            {"lab": known.valkey, "api": known.valkey_api, "worker": known.valkey_worker}
        )
        write_private(directory.valkey / USERS_FILE, users)
        write_private(directory.valkey / "valkey.conf", made._configuration())
        return made

    @property
    def url(self) -> str:
        """The address of the broker for who may do everything there, with the password."""
        return self._address(OWNER, self.directory.credentials().valkey)

    def url_for(self, part: Part) -> str:
        """The same broker for the API or the workers, who may do what they need and no more."""
        known = self.directory.credentials()
        return self._address(
            USERS[part], known.valkey_api if part == "api" else known.valkey_worker
        )

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

    def _address(self, user: str, password: str) -> str:
        return f"redis://{user}:{password}@{LOOPBACK}:{self.port}/0"

    def _configuration(self) -> str:
        return "\n".join(
            (
                f"bind {LOOPBACK}",
                f"port {self.port}",
                f"aclfile {USERS_FILE}",
                "dir .",
                'save ""',
                "appendonly yes",
                # Its housekeeping, ten times a second, was all that it did while nobody rang. Once
                # would be the least, but it is then that it sees that it has to end.
                "hz 2",
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
