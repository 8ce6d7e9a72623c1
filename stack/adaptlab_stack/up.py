"""The whole stack on one machine, under one supervisor.

It consists of the embedded servers, the API, the workers and beat.
"""

import http.client
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from adaptlab_api.doors.listening import Listening, UnsafeAddress
from adaptlab_client.transport.last_server import record_of
from adaptlab_db.rights import PARTS, Part
from adaptlab_db.role_passwords import VARIABLES, RolePasswords, address_for
from adaptlab_db.secret_files import SUFFIX, secret
from adaptlab_stack.data_directory import DataDirectory, Endpoints
from adaptlab_stack.disk_room import DiskRoom, whatever_the_disk
from adaptlab_stack.environment_file import environment_with
from adaptlab_stack.errors import OpenToOthers
from adaptlab_stack.ports import api_socket, port_of, url_of
from adaptlab_stack.postgres import EmbeddedPostgres
from adaptlab_stack.process import WITHOUT_BYTE_CODE, ProcessSpec, StopStep
from adaptlab_stack.supervisor import ROOM_SECONDS, StopRequested, Supervisor
from adaptlab_stack.supervisor_requests import Requests
from adaptlab_stack.valkey import EmbeddedValkey
from adaptlab_stack.waiting import SignalWaiting

DATABASE_URL = "ADAPTLAB_DATABASE_URL"
BROKER_URL = "ADAPTLAB_BROKER_URL"
DATA_DIR = "ADAPTLAB_DATA_DIR"
WORKERS_PER_MACHINE = "ADAPTLAB_WORKERS_PER_MACHINE"
WORKER_LEAVES = StopStep(signal.SIGUSR2, 40.0)
"""Longer than the 20 s that a worker gives its runs after this signal."""
API_LEAVES = StopStep(signal.SIGUSR2, 70.0)
"""Longer than the 60 s that the API gives its requests after this signal."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of `adaptlab up`; `port` None is the default or a free one.

    `env_file` has settings, which are read again at a reload.
    """

    data_dir: Path
    host: str
    port: int | None
    workers: int
    behind_proxy: bool = False
    servers: int = 1
    env_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Programs:
    """Commands of the processes; the API's gets `--host`, `--port` and `--fd`."""

    prepare: tuple[str, ...] = (sys.executable, "-m", "adaptlab_stack.prepare")
    api: tuple[str, ...] = (sys.executable, "-m", "adaptlab_api")
    worker: tuple[str, ...] = (sys.executable, "-m", "adaptlab_worker", "worker")
    beat: tuple[str, ...] = (sys.executable, "-m", "adaptlab_worker", "beat")


@dataclass(frozen=True, slots=True)
class _Servers:
    """The database and the broker: embedded ones, or configured addresses."""

    postgres: EmbeddedPostgres | None
    valkey: EmbeddedValkey | None
    database_url: str
    broker_url: str

    @classmethod
    def prepare(cls, directory: DataDirectory, given: Mapping[str, str]) -> "_Servers":
        """Prepare an embedded server for each address that is not configured."""
        database_url, broker_url = (given_address(one, given) for one in (DATABASE_URL, BROKER_URL))
        postgres = None if database_url else EmbeddedPostgres.prepare(directory)
        valkey = None if broker_url else EmbeddedValkey.prepare(directory)
        return cls(
            postgres,
            valkey,
            database_url=postgres.url if postgres else str(database_url),
            broker_url=valkey.url if valkey else str(broker_url),
        )

    def processes(self) -> tuple[ProcessSpec, ...]:
        """Return the processes of the embedded servers."""
        return tuple(server.process() for server in (self.postgres, self.valkey) if server)

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the name and the origin of each server, for the report."""
        postgres, valkey = self.postgres, self.valkey
        return (
            ("postgres", postgres.description if postgres else f"given by {DATABASE_URL}"),
            ("valkey", valkey.description if valkey else f"given by {BROKER_URL}"),
        )

    def addresses(self, part: Part, given: Mapping[str, str]) -> Mapping[str, str]:
        """Return the addresses for a part, with roles of its own if there are any."""
        return {
            DATABASE_URL: self._database_address(part, given),
            BROKER_URL: self.valkey.url_for(part) if self.valkey else self.broker_url,
        }

    def fixed(self, given: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables whose values differ from these addresses."""
        own = {
            DATABASE_URL: None if self.postgres else self.database_url,
            BROKER_URL: None if self.valkey else self.broker_url,
        }
        return tuple(name for name, url in own.items() if given_address(name, given) != url)

    def _database_address(self, part: Part, given: Mapping[str, str]) -> str:
        if self.postgres is not None:
            return self.postgres.url_for(part)
        passwords = RolePasswords.given(given)
        if passwords is None:  # the roles of a configured server are up to its owner
            return self.database_url
        return address_for(self.database_url, part, passwords)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The processes that depend on settings."""

    preparation: ProcessSpec
    applications: tuple[ProcessSpec, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is decided before the first process starts, and stays."""

    directory: DataDirectory
    endpoints: Endpoints
    listening: socket.socket
    servers: _Servers
    options: UpOptions
    programs: Programs
    lines: tuple[tuple[str, str], ...]


def run_up(options: UpOptions, programs: Programs, report: Callable[[str], None]) -> None:
    """Run the stack until SIGINT, SIGTERM or SIGHUP.

    Raises:
        StackError: it cannot start; everything that was started is stopped.
    """
    begin, report = time.monotonic(), whatever_the_disk(report)
    directory = DataDirectory.open(options.data_dir)
    with directory.locked(), SignalWaiting() as waiting:
        os.umask(0o077)
        directory.withdraw()
        room = DiskRoom(directory.root, report)
        while room.look():
            waiting.pause(ROOM_SECONDS)
            if waiting.stop_requested:
                return
        plan = _plan(directory, options, programs)
        parts = _parts(plan, environment_with(options.env_file))
        requests = Requests(
            directory, plan.endpoints, waiting, lambda supervisor: _reload(plan, supervisor, report)
        )
        supervisor = Supervisor(waiting, directory.log, report, requests.publish, room)
        try:
            _start(plan, parts, supervisor, report)
            report(f"ready after {time.monotonic() - begin:.1f} s; Ctrl-C stops it")
            supervisor.watch(lambda: requests.serve(supervisor, report))
        except StopRequested:
            report("stopped before it was ready")
        finally:
            _stop(plan, supervisor, report)


def _start(
    plan: _Plan, parts: _Parts, supervisor: Supervisor, report: Callable[[str], None]
) -> None:
    for name, text in plan.lines:
        report(f"{name:<9} {text}")
    supervisor.start(plan.servers.processes())
    supervisor.complete(parts.preparation)
    supervisor.start(parts.applications)
    plan.directory.announce(plan.endpoints.url)
    plan.directory.remember(record_of(os.environ))


def _reload(plan: _Plan, supervisor: Supervisor, report: Callable[[str], None]) -> None:
    """Restart API, workers and beat with the present settings.

    The preparation runs first: it refuses invalid settings before any process ends.
    """
    given = environment_with(plan.options.env_file)
    for name in plan.servers.fixed(given):
        report(f"{name} has changed, which takes effect after `adaptlab down` and `up`")
    parts = _parts(plan, given)
    supervisor.complete(parts.preparation)
    supervisor.replace(parts.applications)


def _stop(plan: _Plan, supervisor: Supervisor, report: Callable[[str], None]) -> None:
    begin = time.monotonic()
    plan.directory.server_file.unlink(missing_ok=True)
    plan.listening.close()  # connections are now refused instead of waiting
    supervisor.stop()
    plan.directory.withdraw()
    report(f"stopped in {time.monotonic() - begin:.1f} s")


def _plan(directory: DataDirectory, options: UpOptions, programs: Programs) -> _Plan:
    _check_host(options)
    given = environment_with(options.env_file)
    listening = api_socket(options.host, options.port)
    servers = _Servers.prepare(directory, given)
    url = url_of(options.host, port_of(listening))
    return _Plan(
        directory=directory,
        endpoints=Endpoints(url, servers.database_url, servers.broker_url),
        listening=listening,
        servers=servers,
        options=options,
        programs=programs,
        lines=_lines(directory, servers, url, options.workers),
    )


def _parts(plan: _Plan, given: Mapping[str, str]) -> _Parts:
    """Return the processes for these settings."""
    options, programs, scratch = plan.options, plan.programs, plan.directory.scratch
    environment = _environment(plan.endpoints, plan.directory, given)
    passwords: Mapping[str, str] = {}
    if plan.servers.postgres is None:
        passwords = _role_passwords(given)
    of_api, of_workers = ({**environment, **plan.servers.addresses(one, given)} for one in PARTS)
    of_workers = {WORKERS_PER_MACHINE: str(max(1, options.workers)), **of_workers}
    return _Parts(
        preparation=ProcessSpec("prepare", programs.prepare, {**environment, **passwords}, scratch),
        applications=(
            *_api_processes(options, programs.api, of_api, plan.listening, scratch),
            *(
                ProcessSpec(name, programs.worker, of_workers, scratch, leave=WORKER_LEAVES)
                for name in _names("worker", options.workers)
            ),
            ProcessSpec("beat", programs.beat, of_workers, scratch),
        ),
    )


def _lines(
    directory: DataDirectory, servers: _Servers, url: str, workers: int
) -> tuple[tuple[str, str], ...]:
    return (
        ("data", str(directory.root)),
        *servers.lines(),
        ("server", url),
        ("workers", str(workers)),
        ("token", str(directory.token)),
        ("logs", str(directory.logs)),
    )


def _api_processes(
    options: UpOptions,
    program: tuple[str, ...],
    environment: Mapping[str, str],
    listening: socket.socket,
    scratch: Path,
) -> list[ProcessSpec]:
    url = url_of(options.host, port_of(listening))
    return [
        ProcessSpec(
            name,
            (*program, *_listening_options(options, listening)),
            environment,
            scratch,
            ready=lambda: _answers(url, "/readyz"),
            sockets=(listening.fileno(),),
            leave=API_LEAVES,
        )
        for name in _names("api", options.servers)
    ]


def _names(kind: str, count: int) -> list[str]:
    return [kind if number == 1 else f"{kind}-{number}" for number in range(1, count + 1)]


def _check_host(options: UpOptions) -> None:
    """Raise `OpenToOthers` if the API would refuse to listen on this address."""
    try:
        Listening(options.host, behind_proxy=options.behind_proxy).check()
    except UnsafeAddress as error:
        raise OpenToOthers(options.host) from error


def _listening_options(options: UpOptions, listening: socket.socket) -> tuple[str, ...]:
    port, number = port_of(listening), listening.fileno()
    proxy = ("--behind-proxy",) if options.behind_proxy else ()
    return "--host", options.host, "--port", str(port), "--fd", str(number), *proxy


def given_address(name: str, given: Mapping[str, str]) -> str | None:
    """Return a configured server's address, or the one in a named file."""
    return secret(given, name) or given.get(name)


def _environment(
    endpoints: Endpoints, directory: DataDirectory, given: Mapping[str, str]
) -> Mapping[str, str]:
    files = {f"{name}{SUFFIX}" for name in (DATABASE_URL, BROKER_URL)}  # read here already
    left_out = files | set(_role_passwords(given)) | {WITHOUT_BYTE_CODE}
    return {
        **{name: value for name, value in given.items() if name not in left_out},
        DATABASE_URL: endpoints.database_url,
        BROKER_URL: endpoints.broker_url,
        DATA_DIR: str(directory.root),
        "PYTHONUNBUFFERED": "1",
    }


def _role_passwords(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that only the preparation gets, to create roles."""
    names = {f"{name}{end}" for name in VARIABLES.values() for end in ("", SUFFIX)}
    return {name: value for name, value in given.items() if name in names}


def _answers(url: str, path: str) -> bool:
    """Return True if a local server answers 200, bypassing any proxy."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
