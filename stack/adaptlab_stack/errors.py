"""Errors of starting and stopping a stack."""

from collections.abc import Sequence
from pathlib import Path


class StackError(Exception):
    """The stack cannot start or continue."""


class DataDirectoryInUse(StackError):
    """Another supervisor holds the lock of a data directory."""

    def __init__(self, root: Path, holder: str) -> None:
        super().__init__(
            f"{root} is in use by another `adaptlab up` (process {holder or 'unknown'}); stop "
            "that process, or choose another --data-dir"
        )


class DataDirectoryClosed(StackError):
    """The user cannot create or write a data directory."""

    def __init__(self, root: Path, cause: OSError) -> None:
        super().__init__(
            f"{root} cannot be used as data directory ({cause.strerror}: {cause.filename}); "
            "choose another --data-dir, or give the directory to the user who runs this command"
        )


class PortTaken(StackError):
    """The requested port is in use, or the user may not bind it."""

    def __init__(self, host: str, port: int, cause: OSError) -> None:
        super().__init__(
            f"port {port} on {host} cannot be used ({cause.strerror}); choose another --port, "
            "or leave --port out to get a free port"
        )


class OpenToOthers(StackError):
    """An address that other machines can reach, without encryption."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"other machines can reach {host!r}, and tokens would be sent unencrypted; put a "
            "TLS proxy in front and add --behind-proxy, or leave --host at 127.0.0.1"
        )


class ServerNotFound(StackError):
    """No usable server program is installed."""

    def __init__(self, program: str, looked_at: Sequence[str], remedy: str) -> None:
        candidates = "; ".join(looked_at) or "nothing on PATH and no wheel"
        super().__init__(f"no usable {program} found ({candidates}); {remedy}")


class DirectoryBarred(StackError):
    """The user that runs Postgres cannot enter a directory."""

    def __init__(self, directory: Path, user: int) -> None:
        super().__init__(
            f"Postgres refuses to run as root, and user {user}, which would run it, cannot "
            f"enter {directory}; run `chmod o+x '{directory}'`, or move the data directory and "
            "the installation to where every user has access, or run this as an ordinary user"
        )


class UserUnknown(StackError):
    """The machine has no entry for the user that runs Postgres."""

    def __init__(self, user: int) -> None:
        super().__init__(
            f"user {user}, which would run Postgres, has no entry in the password database; "
            f"add one (`useradd --uid {user} lab`), run this as another user, or set "
            "ADAPTLAB_DATABASE_URL to a running server"
        )


class ClusterNotMovable(StackError):
    """The files of a cluster cannot be given to the user of its server."""

    def __init__(self, cluster: Path, reason: str, user: int | None) -> None:
        step = "stop it" if user is None else f"check it, and run `chown -R -h {user} '{cluster}'`"
        super().__init__(
            f"the Postgres files in {cluster} belong to `nobody`, which other programs may run as, "
            f"and cannot be given to a user of their own: {reason}; {step}, then start again"
        )


class StartFailed(StackError):
    """A supervised process did not start."""

    def __init__(self, name: str, reason: str, log: Path, tail: str) -> None:
        super().__init__(f"{name} {reason}; the end of {log}:\n{tail}")


class EnvironmentFileInvalid(StackError):
    """A file with settings cannot be read."""


class NothingRuns(StackError):
    """No supervisor holds a data directory."""

    def __init__(self, root: Path) -> None:
        super().__init__(f"nothing is running in {root}; start it with `adaptlab up`")


class SupervisorTooOld(StackError):
    """The running supervisor is of a version that serves no requests."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            f"the server that runs in {root} is of an earlier version, which can only be stopped; "
            "run `adaptlab down`"
        )


class RequestFailed(StackError):
    """A running supervisor could not do what was requested, or not in time."""


class StopTimedOut(StackError):
    """A supervisor did not stop in time."""

    def __init__(self, root: Path, pid: int) -> None:
        super().__init__(
            f"process {pid}, which supervises {root}, has not stopped yet; see {root}/logs"
        )


class DemoFailed(StackError):
    """A job of the demo did not succeed."""


class BackupFailed(StackError):
    """A backup could not be created or restored."""
