"""An embedded Valkey server below a data directory: the Celery broker."""

import os
import signal
from dataclasses import dataclass

import redis

from adaptlab_db.rights import Part
from adaptlab_stack.binaries import ValkeyProgram, find_valkey
from adaptlab_stack.data_directory import DataDirectory, write_private
from adaptlab_stack.ports import LOOPBACK, HeldPort
from adaptlab_stack.process import ProcessSpec, StopStep
from adaptlab_stack.valkey_users import OWNER, USERS, users_file

USERS_FILE = "users.acl"
STOP = (StopStep(signal.SIGTERM, 1.0),)


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    """A Valkey server that is ready to be started; created by `prepare`."""

    directory: DataDirectory
    program: ValkeyProgram
    held: HeldPort

    @classmethod
    def prepare(cls, directory: DataDirectory) -> "EmbeddedValkey":
        """Find the program, choose a port and write the configuration.

        Raises:
            ServerNotFound: neither Valkey nor Redis is installed.
        """
        server = cls(directory, find_valkey(), HeldPort())
        directory.valkey.mkdir(mode=0o700, exist_ok=True)
        passwords = directory.credentials()
        users = users_file(
            {
                "lab": passwords.valkey,
                "api": passwords.valkey_api,
                "worker": passwords.valkey_worker,
            }
        )
        write_private(directory.valkey / USERS_FILE, users)
        write_private(directory.valkey / "valkey.conf", server._configuration())
        return server

    @property
    def url(self) -> str:
        """The address of the broker for its owner, with the password."""
        return self._address(OWNER, self.directory.credentials().valkey)

    def url_for(self, part: Part) -> str:
        """Return the address for the API or the workers, with limited permissions."""
        passwords = self.directory.credentials()
        password = passwords.valkey_api if part == "api" else passwords.valkey_worker
        return self._address(USERS[part], password)

    @property
    def description(self) -> str:
        """The server's address, program and origin, without the password."""
        return f"{LOOPBACK}:{self.held.number} ({self.program.path.name}, {self.program.source})"

    def process(self) -> ProcessSpec:
        """Return the process to supervise."""
        return ProcessSpec(
            name="valkey",
            # Relative to the working directory, so that no path needs quoting.
            argv=(str(self.program.path), "valkey.conf"),
            environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
            directory=self.directory.valkey,
            ready=self._is_ready,
            stop=STOP,
            stop_stage=1,
            # Killed immediately, so that the next start finds the append-only file unused; written
            # data is kept.
            parent_death_signal=signal.SIGKILL,
        )

    def _address(self, user: str, password: str) -> str:
        return f"redis://{user}:{password}@{LOOPBACK}:{self.held.number}/0"

    def _configuration(self) -> str:
        return "\n".join(
            (
                f"bind {LOOPBACK}",
                f"port {self.held.number}",
                f"aclfile {USERS_FILE}",
                "dir .",
                'save ""',
                "appendonly yes",
                # An idle server spent its time on housekeeping, ten times per second. Twice is
                # enough, and keeps shutdown fast, which it checks for then.
                "hz 2",
                "",
            )
        )

    def _is_ready(self) -> bool:
        try:
            # redis-py does not type the keyword arguments of these two.
            client = redis.Redis.from_url(self.url, socket_timeout=2)  # pyright: ignore[reportUnknownMemberType]
            with client:
                return client.ping()  # pyright: ignore[reportUnknownMemberType]
        except (redis.ConnectionError, redis.TimeoutError):
            return False
