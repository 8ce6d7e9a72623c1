"""The data directory, which contains everything that outlives a stack."""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Self

from adaptlab_db.role_passwords import RolePasswords
from adaptlab_stack.errors import DataDirectoryClosed, DataDirectoryInUse, SupervisorTooOld

LOG_BYTES = 10 * 2**20


@dataclass(frozen=True, slots=True)
class EmbeddedPasswords:
    """Passwords of the embedded servers, to which local users can connect.

    `postgres` belongs to the tables' owner, `api` and `worker` to the roles that use the tables.
    Likewise `valkey` belongs to a user with all permissions, `valkey_api` and `valkey_worker` to
    users with limited ones.
    """

    postgres: str
    valkey: str
    api: str
    worker: str
    valkey_api: str
    valkey_worker: str

    @property
    def roles(self) -> RolePasswords:
        """The passwords of the roles that use the tables."""
        return RolePasswords(self.api, self.worker)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of the running stack; those of the servers contain passwords."""

    url: str
    database_url: str
    broker_url: str


@dataclass(frozen=True, slots=True)
class StackState:
    """The state that a running supervisor publishes in its data directory.

    Attributes:
        endpoints: addresses of the API and the servers.
        processes: ids of the running processes, by name.
        requests: number of requests, such as to drain, that it has served.
        problem: the error of the last request; None if it succeeded.
    """

    endpoints: Endpoints
    processes: Mapping[str, int] = field(default_factory=dict[str, int])
    requests: int = 0
    problem: str | None = None


class DataDirectory:
    """Paths and small files of one data directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs = root / "logs"
        self.cluster = root / "postgres"
        self.valkey = root / "valkey"
        self.scratch = root / "scratch"
        self.token = root / "token"
        self.server_file = root / "server.json"
        self.state_file = root / "stack.json"
        self.credentials_file = root / "credentials.json"
        self.lock_file = root / "lock"

    @classmethod
    def open(cls, root: Path) -> Self:
        """Open the directory, and create it if needed.

        Raises:
            DataDirectoryClosed: it cannot be created or entered.
        """
        directory = cls(root.resolve())
        try:
            if not directory.root.exists():
                directory.root.mkdir(parents=True)
                directory.root.chmod(_mode_of_root())
            for folder in (directory.logs, directory.scratch):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise DataDirectoryClosed(directory.root, error) from error
        return directory

    @contextmanager
    def locked(self) -> Generator[None]:
        """Lock the directory for this process; the lock ends with the process.

        Raises:
            DataDirectoryInUse: another process holds it.
            DataDirectoryClosed: the lock file cannot be written.
        """
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirectoryClosed(self.root, error) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataDirectoryInUse(self.root, os.pread(descriptor, 20, 0).decode()) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def holder(self) -> int | None:
        """Return the id of the process that holds the directory, if any."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.pread(descriptor, 20, 0) or b"0") or None
        else:
            return None
        finally:
            os.close(descriptor)

    def credentials(self) -> EmbeddedPasswords:
        """Return the passwords of the servers, created on first use."""
        if not self.credentials_file.exists():
            created = {field.name: secrets.token_urlsafe(24) for field in fields(EmbeddedPasswords)}
            write_private(self.credentials_file, json.dumps(created))
        return EmbeddedPasswords(**json.loads(self.credentials_file.read_text()))

    def write_state(self, state: StackState) -> None:
        """Publish the servers' addresses and the running processes."""
        write_private(self.state_file, json.dumps(asdict(state)))

    def read_state(self) -> StackState:
        """Return the state that was published last.

        Raises:
            SupervisorTooOld: the server that runs is of a version without requests.
        """
        stored = json.loads(self.state_file.read_text())
        if "requests" not in stored:
            raise SupervisorTooOld(self.root)
        return StackState(**stored | {"endpoints": Endpoints(**stored["endpoints"])})

    def announce(self, url: str) -> None:
        """Publish the server's address to clients on this machine."""
        write_private(self.server_file, json.dumps({"url": url, "pid": os.getpid()}))

    def remember(self, record: Path) -> None:
        """Record that this is the directory of the user's last server."""
        with suppress(OSError):  # without a home, commands find it by their folder only
            record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(record, str(self.root))

    def announced_by(self, pid: int) -> bool:
        """Return True if the process with this id has announced a server."""
        try:
            return json.loads(self.server_file.read_text())["pid"] == pid
        except FileNotFoundError:
            return False

    def withdraw(self) -> None:
        """Remove what `announce` and `write_state` wrote, also after a crash."""
        self.server_file.unlink(missing_ok=True)
        self.state_file.unlink(missing_ok=True)

    def log(self, name: str) -> Path:
        """Return the path of a process's log file."""
        return self.logs / f"{name}.log"


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically by one that only its owner can read."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def trim_log(path: Path, limit: int = LOG_BYTES) -> None:
    """Keep a log under twice `limit` bytes, with its older content set aside.

    The content is copied to `<name>.log.1` and the log truncated, because its writer keeps it open.
    Lines written between the two steps are lost.
    """
    if path.exists() and path.stat().st_size > limit:
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)


def tail(path: Path, lines: int = 20) -> str:
    """Return the last lines of a text file, or an empty string without a file."""
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def _mode_of_root() -> int:
    # Root's Postgres runs as another user, who needs to traverse the directory. Others cannot list
    # it, and everything in it is protected by its own mode.
    return 0o711 if os.geteuid() == 0 else 0o700
