"""The directory in which a stack keeps everything that outlives it."""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Self

from adaptlab_db.role_passwords import RolePasswords
from adaptlab_stack.errors import DataDirectoryClosed, DataDirectoryInUse

LOG_BYTES = 10 * 2**20


@dataclass(frozen=True, slots=True)
class Credentials:
    """Passwords of the embedded servers, which listen where every user of the machine can knock.

    `postgres` is that of the tables' owner, `api` and `worker` are of the roles that use them;
    likewise `valkey` is of who may do everything there, and `valkey_api` and `valkey_worker` not.
    """

    postgres: str
    valkey: str
    api: str
    worker: str
    valkey_api: str
    valkey_worker: str

    @property
    def roles(self) -> RolePasswords:
        """The passwords of those who use the tables."""
        return RolePasswords(self.api, self.worker)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the running stack can be reached; both URLs hold passwords."""

    url: str
    database_url: str
    broker_url: str


@dataclass(frozen=True, slots=True)
class StackState:
    """What a running supervisor tells those who may read its data directory."""

    endpoints: Endpoints
    processes: Mapping[str, int] = field(default_factory=dict[str, int])


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
        """Make the directory if need be.

        Raises:
            DataDirectoryClosed: it cannot be made or entered.
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
        """Hold the directory for this process; the lock dies with the process, however it ends.

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
        """The process that holds the directory, if one does."""
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

    def credentials(self) -> Credentials:
        """The passwords of this directory's servers, each made on first use.

        A directory of an earlier version has fewer, and gets the others.
        """
        kept: dict[str, str] = {}
        if self.credentials_file.exists():
            kept = json.loads(self.credentials_file.read_text())
        found = Credentials(
            **{
                field.name: kept.get(field.name) or secrets.token_urlsafe(24)
                for field in fields(Credentials)
            }
        )
        if asdict(found) != kept:
            write_private(self.credentials_file, json.dumps(asdict(found)))
        return found

    def write_state(self, state: StackState) -> None:
        """Publish where the servers are and which processes run."""
        write_private(self.state_file, json.dumps(asdict(state)))

    def read_state(self) -> StackState:
        """What `write_state` published last."""
        stored = json.loads(self.state_file.read_text())
        return StackState(Endpoints(**stored["endpoints"]), stored["processes"])

    def announce(self, url: str) -> None:
        """Tell clients on this machine where the server is."""
        write_private(self.server_file, json.dumps({"url": url, "pid": os.getpid()}))

    def announced_by(self, pid: int) -> bool:
        """Whether the process with this id has announced a server."""
        try:
            return json.loads(self.server_file.read_text())["pid"] == pid
        except FileNotFoundError:
            return False

    def withdraw(self) -> None:
        """Remove what `announce` and `write_state` left, also after a crash."""
        self.server_file.unlink(missing_ok=True)
        self.state_file.unlink(missing_ok=True)

    def log(self, name: str) -> Path:
        """The log file of a process."""
        return self.logs / f"{name}.log"


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step by one that only its owner may read."""
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
    """Keep a log under twice `limit` bytes: its content moves to `<name>.log.1`.

    Copied and truncated rather than renamed, because the process writing it holds it open. Lines
    written between the two steps are lost.
    """
    if path.exists() and path.stat().st_size > limit:
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)


def tail(path: Path, lines: int = 20) -> str:
    """The last lines of a text file, or the empty string if there is none."""
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def _mode_of_root() -> int:
    # Root's Postgres runs as another user, who must be able to pass through. Nobody else can
    # list the directory, and everything in it is closed by its own mode.
    return 0o711 if os.geteuid() == 0 else 0o700
