"""An embedded Postgres cluster below a data directory."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg

from adaptlab_db.rights import Part
from adaptlab_db.role_passwords import address_for
from adaptlab_db.roles import make_logins_by
from adaptlab_stack.binaries import PostgresPrograms, find_postgres
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.errors import StartFailed
from adaptlab_stack.identity import Identity, identity_of, initialising
from adaptlab_stack.ownership import give_cluster
from adaptlab_stack.ports import LOOPBACK, HeldPort
from adaptlab_stack.process import ProcessSpec, StopStep, describe_exit, tie_to_parent

ROLE = "lab"
DATABASE = "adaptlab"
CONNECTIONS = 250
# After kill -9 of the postmaster, a start is refused until its backends are gone. After kill -9 of
# the supervisor, it is refused until the old server has written its last checkpoint, which takes
# longer on a busy disk. Eight attempts cover 12 seconds.
START_ATTEMPTS = 8
# A fast shutdown writes a checkpoint; an immediate one leaves that to the next start.
STOP = (StopStep(signal.SIGINT, 1.5), StopStep(signal.SIGQUIT, 0.4))
# An upload fills the default, a quarter of this, before the disk has written the previous buffer.
# Writers would then wait for the disk.
WAL_BUFFERS = "16MB"
# Commits write the log themselves. The WAL writer, which wakes up every 0.2 s by default, is left
# with writes that no one waits for.
DURABLE = ("-c", "wal_writer_delay=2s")
# Nor is anything vacuumed or analysed behind a test's back: its rows live for a second.
NOT_DURABLE = (
    *("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"),
    *("-c", "autovacuum=off"),
)


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A Postgres server that is ready to be started.

    Created by `prepare`, which initialises the cluster if there is none.

    Attributes:
        durable: False trades safety against a power cut for speed; for tests only.
    """

    directory: DataDirectory
    programs: PostgresPrograms
    identity: Identity | None
    held: HeldPort
    durable: bool = True

    @classmethod
    def prepare(cls, directory: DataDirectory, *, durable: bool = True) -> "EmbeddedPostgres":
        """Find the programs, choose a port and create the cluster on first use.

        Raises:
            ServerNotFound: no suitable Postgres is installed.
            DirectoryBarred: root's Postgres cannot reach its files.
            ClusterNotMovable: an older cluster, of `nobody`, cannot be given to Postgres' own user.
            StartFailed: `initdb` failed.
        """
        programs = find_postgres(_cluster_major(directory.cluster))
        needed = [directory.root, programs.directory / "postgres"]
        identity = identity_of(directory.cluster, needed)
        if not directory.cluster.exists():
            _initialise(directory, programs, identity, durable=durable)
        elif identity:
            give_cluster(directory.cluster, identity)
        return cls(directory, programs, identity, HeldPort(), durable)

    @property
    def url(self) -> str:
        """The database's address with its password, for SQLAlchemy and psycopg 3."""
        return self._address("postgresql+psycopg", DATABASE)

    def url_for(self, part: Part) -> str:
        """Return the address for the API's or the workers' role.

        Their permissions are narrower than those of the database's owner.
        """
        return address_for(self.url, part, self.directory.credentials().roles)

    @property
    def description(self) -> str:
        """The server's address, version and origin, without the password."""
        program = f"Postgres {self.programs.major}, {self.programs.source}"
        return f"{LOOPBACK}:{self.held.number} ({program})"

    def process(self) -> ProcessSpec:
        """Return the process to supervise."""
        argv = (
            str(self.programs.directory / "postgres"),
            *("-D", str(self.directory.cluster)),
            *("-p", str(self.held.number)),
            *("-c", f"listen_addresses={LOOPBACK}"),
            # No socket file: its path may be longer than the 107 bytes the kernel allows.
            *("-c", "unix_socket_directories="),
            *("-c", f"max_connections={CONNECTIONS}"),
            *("-c", f"wal_buffers={WAL_BUFFERS}"),
            *(DURABLE if self.durable else NOT_DURABLE),
        )
        return ProcessSpec(
            name="postgres",
            argv=argv,
            environment=_environment(),
            directory=Path("/"),
            ready=self._is_ready,
            stop=STOP,
            stop_stage=1,
            parent_death_signal=signal.SIGINT,
            start_attempts=START_ATTEMPTS,
            identity=self.identity,
        )

    def _address(self, scheme: str, database: str) -> str:
        password = self.directory.credentials().postgres
        return f"{scheme}://{ROLE}:{password}@{LOOPBACK}:{self.held.number}/{database}"

    def _is_ready(self) -> bool:
        """Return True if the server answers.

        Creates the database and the roles if they are missing.
        """
        try:
            with psycopg.connect(
                self._address("postgresql", "postgres"), connect_timeout=2, autocommit=True
            ) as connection:
                query = "SELECT 1 FROM pg_database WHERE datname = %s"
                if connection.execute(query, [DATABASE]).fetchone() is None:
                    connection.execute(f'CREATE DATABASE "{DATABASE}"')
                make_logins_by(connection, DATABASE, self.directory.credentials().roles)
        except psycopg.OperationalError:
            return False
        return True


def _initialise(
    directory: DataDirectory,
    programs: PostgresPrograms,
    identity: Identity | None,
    *,
    durable: bool,
) -> None:
    """Create a cluster in a temporary folder, and rename it when complete."""
    unfinished = directory.root / "postgres.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    password_file = unfinished / "password"
    cluster = unfinished / "cluster"
    password_file.touch(mode=0o600)
    password_file.write_text(directory.credentials().postgres)
    creator = initialising(identity) if identity else None
    if creator:
        for path in (unfinished, password_file):
            os.chown(path, creator.user, creator.group)
    argv = _initdb_command(programs, cluster, password_file, durable=durable)
    _run_initdb(argv, creator, directory)
    if identity:
        give_cluster(cluster, identity)
    cluster.rename(directory.cluster)
    shutil.rmtree(unfinished)


def _initdb_command(
    programs: PostgresPrograms, cluster: Path, password_file: Path, *, durable: bool
) -> tuple[str, ...]:
    return (
        str(programs.directory / "initdb"),
        *("-D", str(cluster), "-U", ROLE, "-E", "UTF8"),
        # macOS has no locale named C.UTF-8.
        f"--locale={'C' if sys.platform == 'darwin' else 'C.UTF-8'}",
        "--auth=scram-sha-256",
        f"--pwfile={password_file}",
        "--no-instructions",
        *(() if durable else ("--no-sync",)),
    )


def _run_initdb(argv: tuple[str, ...], identity: Identity | None, directory: DataDirectory) -> None:
    plain = identity if identity and identity.capability is None else None
    done = subprocess.run(
        identity.wrap(argv, signal.SIGKILL) if identity else argv,
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env=_environment(),
        start_new_session=True,
        user=plain.user if plain else None,
        group=plain.group if plain else None,
        extra_groups=[] if plain else None,
        preexec_fn=tie_to_parent(signal.SIGKILL),
    )
    if done.returncode != 0:
        log = directory.log("initdb")
        log.write_text(done.stdout + done.stderr)
        raise StartFailed("initdb", describe_exit(done.returncode), log, done.stderr.strip())


def _environment() -> dict[str, str]:
    # Without the caller's variables, because Postgres would obey PGDATA, PGPORT or a locale that is
    # not installed.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _cluster_major(cluster: Path) -> int | None:
    version = cluster / "PG_VERSION"
    return int(version.read_text()) if version.exists() else None
