"""The stack with stand-ins for API, worker and beat; the rest is real."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import psycopg
import pytest
import redis

from adaptlab_client.errors import NoServer
from adaptlab_client.transport.discovery import discover
from adaptlab_stack import postgres, valkey
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.errors import (
    NothingRuns,
    PortTaken,
    RequestFailed,
    StartFailed,
    SupervisorTooOld,
)
from adaptlab_stack.ports import HeldPort, api_socket, port_of, url_of
from adaptlab_stack.process import ProcessSpec, StopStep
from adaptlab_stack.servers import embedded_servers
from adaptlab_stack.stack import Stack, request, stop
from adaptlab_stack.waiting import DRAIN_SIGNAL, RELOAD_SIGNAL

Descendants = Callable[[int], list[psutil.Process]]
Eventually = Callable[[Callable[[], bool], float], None]
InitialisedAt = Callable[[Path], Path]
ALL = {"postgres", "valkey", "api", "api-2", "worker", "worker-2", "beat"}
"""The processes of the stack that tests share."""


@contextmanager
def connect(stack: Stack) -> "Generator[psycopg.Connection[tuple[object, ...]]]":
    # `closing`, because a connection that has lost its server cannot leave its own block quietly.
    address = stack.database_url.replace("+psycopg", "")
    with closing(psycopg.connect(address, autocommit=True)) as connection:
        yield connection


def words(stack: Stack) -> list[tuple[object, ...]]:
    with connect(stack) as connection:
        return connection.execute("SELECT word FROM kept").fetchall()


def status_of(url: str) -> int:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    finally:
        connection.close()


def left_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that have not ended after a minute."""
    return psutil.wait_procs(processes, timeout=60)[1]


def test_the_steps_of_a_stop_take_less_than_five_seconds():
    """Stage after stage, and then nobody is asked any more."""

    def seconds(steps: tuple[StopStep, ...]) -> float:
        return sum(step.seconds for step in steps)

    of_applications = ProcessSpec("any", (), {}, Path()).stop
    assert seconds(of_applications) + max(seconds(postgres.STOP), seconds(valkey.STOP)) < 5


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, stand_in_up: tuple[str, ...]
) -> Iterator[Stack]:
    """A stack in a new directory; tests leave all its processes running."""
    data = tmp_path_factory.mktemp("shared") / "a folder with 'spaces'"
    environment = {"PYTHONDONTWRITEBYTECODE": "1"}
    with Stack.start(
        data, command=stand_in_up, workers=2, servers=2, environment=environment
    ) as stack:
        yield stack


def test_a_stack_says_where_it_is(shared: Stack):
    data = shared.data_dir
    assert status_of(shared.url) == 200
    assert shared.token == "a-token"
    assert set(shared.processes) == ALL
    announced = json.loads((data / "server.json").read_text())
    assert announced == {"url": shared.url, "pid": shared.pid}
    for name in ("server.json", "stack.json", "token", "credentials.json"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
    assert not data.stat().st_mode & 0o066
    said = shared.log("up")
    assert all(part in said for part in (shared.url, str(data), "127.0.0.1:"))
    secret = urlsplit(shared.database_url).password
    assert secret is not None
    assert secret not in said


def test_workers_know_how_many_share_the_machine(shared: Stack):
    for name in ("worker", "worker-2"):
        process = psutil.Process(shared.processes[name].pid)
        environment = process.environ()
        assert environment["ADAPTLAB_WORKERS_PER_MACHINE"] == "2"
        assert "PYTHONDONTWRITEBYTECODE" not in environment


def test_a_command_finds_the_last_server_wherever_it_was_started(
    tmp_path: Path, stand_in_up: tuple[str, ...]
) -> None:
    known = {"HOME": "/nowhere", "XDG_STATE_HOME": str(tmp_path / "state")}
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Stack.start(data, command=stand_in_up, environment=known) as stack:
        assert discover(environment=known, start=elsewhere) == (stack.url, "a-token")
        assert discover(stack.url, environment=known, start=elsewhere).token == "a-token"
        assert discover("http://other", environment=known, start=elsewhere).token is None
    with pytest.raises(NoServer, match=f"started last, in {data}, is not running"):
        discover(environment=known, start=elsewhere)


def test_a_signal_stops_everything(
    tmp_path: Path,
    stand_in_up: tuple[str, ...],
    initialised_at: InitialisedAt,
    descendants: Descendants,
):
    # The worst case: a client stays connected, and the worker does not listen.
    stubborn = {"STAND_IN_STUBBORN": "1"}
    data = initialised_at(tmp_path / "d")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with Stack.start(data, command=stand_in_up, environment=stubborn) as stack:
            with connect(stack):
                family = [psutil.Process(stack.pid), *descendants(stack.pid)]
                assert len(family) > 6
                os.kill(stack.pid, number)
                assert left_of(family) == [], number
            assert "stopped in" in stack.log("up")  # each start begins its log again
        assert not (data / "server.json").exists()
        assert not (data / "stack.json").exists()


def test_kill_9_of_the_supervisor_leaves_nothing_and_the_next_start_recovers(
    tmp_path: Path,
    stand_in_up: tuple[str, ...],
    initialised_at: InitialisedAt,
    descendants: Descendants,
    eventually: Eventually,
):
    data = initialised_at(tmp_path / "d")
    with Stack.start(data, command=stand_in_up) as stack:
        with redis.Redis.from_url(stack.broker_url) as client:
            client.rpush("queue", "a message")
        with connect(stack) as held:
            held.execute("INSERT INTO kept VALUES ('committed')")
            family = descendants(stack.pid)
            os.kill(stack.pid, signal.SIGKILL)
            # At once, while the old servers may still be going down.
            with Stack.start(data, command=stand_in_up) as second:
                assert words(second) == [("committed",)]
                with redis.Redis.from_url(second.broker_url) as client:
                    assert client.lrange("queue", 0, -1) == [b"a message"]
                assert left_of(family) == []
                empties_the_house_alone(second, descendants, eventually)


def empties_the_house_alone(stack: Stack, descendants: Descendants, eventually: Eventually) -> None:
    """Kill the supervisor, and start nothing that could tidy up after it."""
    worker = psutil.Process(stack.processes["worker"].pid)
    eventually(lambda: len(worker.children()) == 1, 60)  # the trainer
    with connect(stack):
        family = descendants(stack.pid)
        assert len(family) > 6
        os.kill(stack.pid, signal.SIGKILL)
        assert left_of(family) == []


def test_a_killed_part_comes_back(shared: Stack, eventually: Eventually):
    def answers() -> bool:
        try:
            return status_of(shared.url) == 200
        except (OSError, http.client.HTTPException):
            return False

    def is_new(name: str, old: int) -> bool:
        return name in (now := shared.processes) and now[name].pid != old

    for name in ("api", "worker", "beat", "postgres", "valkey"):
        old = shared.processes[name].pid
        os.kill(old, signal.SIGKILL)
        eventually(partial(is_new, name, old), 60)
        eventually(answers, 60)
        assert f"{name} was killed by SIGKILL" in shared.log("up")
    eventually(lambda: set(shared.processes) == ALL, 60)


@pytest.mark.long("chaos at length")
def test_a_drained_stack_serves_without_workers(
    tmp_path: Path, stand_in_up: tuple[str, ...], initialised_at: InitialisedAt
):
    data = initialised_at(tmp_path / "d")
    with pytest.raises(NothingRuns, match="adaptlab up"):
        request(data, DRAIN_SIGNAL, 60)
    with Stack.start(data, command=stand_in_up, workers=2) as stack:
        before = {name: process.pid for name, process in stack.processes.items()}
        assert {"worker", "worker-2"} <= before.keys()
        request(data, DRAIN_SIGNAL, 60)
        after = {name: process.pid for name, process in stack.processes.items()}
        assert after == {name: pid for name, pid in before.items() if "worker" not in name}
        assert status_of(stack.url) == 200
        assert "drained: no worker runs" in stack.log("up")
        request(data, RELOAD_SIGNAL, 120)
        assert stack.processes.keys() == before.keys(), "a reload starts them again"


@pytest.mark.long("chaos at length")
def test_a_reload_takes_up_settings_without_a_refused_request(
    tmp_path: Path, stand_in_up: tuple[str, ...], initialised_at: InitialisedAt
):
    data, file = initialised_at(tmp_path / "d"), tmp_path / "settings.env"
    file.write_text("# a comment\nSTAND_IN_SETTING='before it'\n")
    command = (*stand_in_up, "--env-file", str(file))
    with Stack.start(data, command=command, workers=2, servers=2) as stack:
        before = {name: process.pid for name, process in stack.processes.items()}
        seen = [httpx.get(stack.url, timeout=60)]
        file.write_text("STAND_IN_SETTING=after it\nADAPTLAB_BROKER_URL=redis://other:1\n")
        with ThreadPoolExecutor(2) as pool:
            reloaded = pool.submit(request, data, RELOAD_SIGNAL, 120)
            seen += [httpx.get(stack.url, timeout=60) for _ in iter(reloaded.done, True)]
            reloaded.result()
        seen += [httpx.get(stack.url, timeout=60) for _ in range(8)]
        after = {name: process.pid for name, process in stack.processes.items()}
        assert {answer.status_code for answer in seen} == {200}
        assert seen[0].headers["X-Setting"] == "before it"
        assert {answer.headers["X-Setting"] for answer in seen[-8:]} == {"after it"}
        assert after.keys() == ALL
        assert {name for name in ALL if after[name] == before[name]} == {"postgres", "valkey"}
        assert "ADAPTLAB_BROKER_URL has changed, which takes effect after" in stack.log("up")


@pytest.mark.long("chaos at length", but=1)
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("STAND_IN_PREPARE=fail", "prepare exited with status 1"),
        ("export", "line 1 of .* is not of the form NAME=value"),
    ],
)
def test_a_reload_with_invalid_settings_restarts_nothing(
    tmp_path: Path,
    stand_in_up: tuple[str, ...],
    initialised_at: InitialisedAt,
    lines: str,
    told: str,
):
    data, file = initialised_at(tmp_path / "d"), tmp_path / "settings.env"
    file.touch()
    command = (*stand_in_up, "--env-file", str(file))
    with Stack.start(data, command=command) as stack:
        before = stack.processes
        file.write_text(lines)
        with pytest.raises(RequestFailed, match=told):
            request(data, RELOAD_SIGNAL, 60)
        assert stack.processes == before
        assert "not reloaded" in stack.log("up")
        file.write_text("")
        request(data, RELOAD_SIGNAL, 60)


def test_a_server_of_an_earlier_version_is_not_sent_requests(tmp_path: Path):
    """The signal would end it."""
    directory = DataDirectory.open(tmp_path / "d")
    with directory.locked():
        old = {"endpoints": {"url": "u", "database_url": "d", "broker_url": "b"}, "processes": {}}
        directory.state_file.write_text(json.dumps(old))
        with pytest.raises(SupervisorTooOld, match="adaptlab down"):
            request(directory.root, DRAIN_SIGNAL, 60)


@pytest.mark.long("chaos at length")
def test_two_stacks_live_side_by_side_and_one_has_the_port_that_it_wants(
    tmp_path: Path, stand_in_up: tuple[str, ...], initialised_at: InitialisedAt, shared: Stack
):
    held = HeldPort()
    port = held.number
    data = initialised_at(tmp_path / "d")
    with Stack.start(data, command=stand_in_up, port=port) as second:
        assert second.url == f"http://127.0.0.1:{port}"
        with connect(second) as connection:
            connection.execute("INSERT INTO kept VALUES ('second')")
        assert words(second) == [("second",)]
        assert words(shared) == []
        assert status_of(second.url) == status_of(shared.url) == 200


def test_a_stack_that_ends_before_the_signal_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    directory = DataDirectory.open(tmp_path / "d")
    old = {
        "endpoints": {"url": "u", "database_url": "d", "broker_url": "b"},
        "processes": {},
        "requests": 0,
    }
    directory.state_file.write_text(json.dumps(old))
    holders = iter([ended.pid, None, ended.pid])
    monkeypatch.setattr(DataDirectory, "holder", lambda _: next(holders))
    assert stop(directory.root)
    with pytest.raises(NothingRuns):
        request(directory.root, DRAIN_SIGNAL, 60)


def test_a_directory_in_use_is_refused_and_left_alone(shared: Stack, stand_in_up: tuple[str, ...]):
    second = subprocess.run(
        [*stand_in_up, "--data-dir", str(shared.data_dir)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert second.returncode == 1
    assert f"in use by another `adaptlab up` (process {shared.pid})" in second.stderr
    assert "Traceback" not in second.stderr
    assert status_of(shared.url) == 200
    assert json.loads((shared.data_dir / "server.json").read_text())["pid"] == shared.pid


def test_a_taken_port_is_refused(tmp_path: Path, stand_in_up: tuple[str, ...]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(StartFailed, match=f"port {port} on 127.0.0.1 cannot be used"),
            Stack.start(tmp_path / "d", command=stand_in_up, port=port),
        ):
            pass


def test_servers_share_one_address_and_stand_in_for_each_other(
    shared: Stack, descendants: Descendants, eventually: Eventually
):
    servers = [found for found in descendants(shared.pid) if "--fd" in found.cmdline()]
    assert len(servers) == 2
    servers[0].kill()
    for _ in range(20):
        assert httpx.get(shared.url, timeout=60).status_code == 200
    killed = servers[0].pid
    eventually(lambda: killed not in {one.pid for one in shared.processes.values()}, 60)
    eventually(lambda: set(shared.processes) == ALL, 60)


def test_without_a_wish_there_is_always_a_port():
    with api_socket("127.0.0.1", None) as first, api_socket("127.0.0.1", None) as second:
        assert port_of(second) != port_of(first)
        with pytest.raises(PortTaken, match="leave --port out"):
            api_socket("127.0.0.1", port_of(first))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a port for a server")
def test_a_port_is_held_for_a_server_that_stops_and_starts():
    held = HeldPort()
    for _ in range(2):
        with api_socket("127.0.0.1", held.number):
            socket.create_connection(("127.0.0.1", held.number)).close()
        stranger = socket.socket()  # without SO_REUSEADDR, as who asks for any port
        with stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", held.number))
    number = held.number
    del held
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", number))


def test_addresses_are_those_that_answer_here():
    assert url_of("0.0.0.0", 8420) == "http://127.0.0.1:8420"
    assert url_of("::1", 8420) == "http://[::1]:8420"
    assert url_of("lab.example", 80) == "http://lab.example:80"


@pytest.mark.long("chaos at length")
def test_a_failed_preparation_is_explained_and_leaves_nothing(
    tmp_path: Path, stand_in_up: tuple[str, ...], initialised_at: InitialisedAt
):
    data = initialised_at(tmp_path / "d")
    environment = {"STAND_IN_PREPARE": "fail"}
    with (
        pytest.raises(StartFailed, match=r"prepare exited with status 1[\s\S]*on strike"),
        Stack.start(data, command=stand_in_up, environment=environment),
    ):
        pass
    assert not (data / "postgres" / "postmaster.pid").exists()
    with embedded_servers(data):
        pass


@pytest.mark.long("chaos at length")
def test_a_signal_during_the_start_ends_it(
    tmp_path: Path,
    stand_in_up: tuple[str, ...],
    initialised_at: InitialisedAt,
    descendants: Descendants,
    eventually: Eventually,
):
    data = initialised_at(tmp_path / "d")
    with subprocess.Popen(
        [*stand_in_up, "--data-dir", str(data)],
        env={**os.environ, "STAND_IN_PREPARE": "hang"},
        stdout=subprocess.PIPE,
        text=True,
    ) as supervisor:
        eventually((data / "hanging").exists, 60)
        family = descendants(supervisor.pid)
        supervisor.terminate()
        said, _ = supervisor.communicate(timeout=60)
    assert supervisor.returncode == 0
    assert "stopped before it was ready" in said
    assert left_of(family) == []


def test_given_servers_replace_the_embedded_ones(
    tmp_path: Path, stand_in_up: tuple[str, ...], empty_database_url: str, broker_url: str
):
    environment = {
        "ADAPTLAB_DATABASE_URL": empty_database_url,
        "ADAPTLAB_BROKER_URL": broker_url,
    }
    data = tmp_path / "d"
    with Stack.start(data, command=stand_in_up, environment=environment) as stack:
        assert set(stack.processes) == {"api", "worker", "beat"}
        assert stack.database_url == empty_database_url
        assert not (data / "postgres").exists()
    psycopg.connect(empty_database_url.replace("+psycopg", "")).close()


@pytest.mark.long("chaos at length")
def test_a_stack_dies_with_the_process_that_started_it(
    tmp_path: Path,
    stand_in_up: tuple[str, ...],
    initialised_at: InitialisedAt,
    descendants: Descendants,
):
    code = (
        "import pathlib, signal, sys\n"
        "from adaptlab_stack.stack import Stack\n"
        "with Stack.start(pathlib.Path(sys.argv[1]), command=tuple(sys.argv[2:])) as stack:\n"
        "    print('up', flush=True); signal.pause()"
    )
    argv = [sys.executable, "-c", code, str(initialised_at(tmp_path / "d")), *stand_in_up]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        family = descendants(owner.pid)
        owner.kill()
    assert left_of(family) == []


def test_the_command_explains_itself():
    shown = subprocess.run(
        [sys.executable, "-m", "adaptlab_stack", "up", "--help"],
        capture_output=True, text=True, check=True,
        timeout=120, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.stdout)
    assert all(name in plain for name in ("--data-dir", "--port", "--host", "--workers"))


@pytest.mark.long("chaos at length")
def test_a_full_disk_ends_nothing_and_is_waited_for(
    small_disk: Path,
    stand_in_up: tuple[str, ...],
    initialised_at: InitialisedAt,
    eventually: Eventually,
):
    """Postgres dies, and neither the stack's state nor the log is written."""
    with Stack.start(initialised_at(small_disk / "d"), command=stand_in_up) as stack:
        with connect(stack) as held:
            held.execute("INSERT INTO kept VALUES ('committed')")
        before = {name: process.pid for name, process in stack.processes.items()}
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(2**12))
        os.kill(before["postgres"], signal.SIGKILL)
        os.kill(before["worker"], signal.SIGKILL)
        eventually(lambda: not psutil.pid_exists(before["postgres"]), 60)
        supervisor = psutil.Process(stack.pid)
        with pytest.raises(psutil.TimeoutExpired):
            supervisor.wait(5)  # as long as it would take to give up
        filler.unlink()
        eventually(lambda: "has enough free space again" in stack.log("up"), 120)
        eventually(lambda: has_come_back(stack), 120)
        eventually(lambda: stack.processes["worker"].pid != before["worker"], 60)
        assert supervisor.is_running()


def has_come_back(stack: Stack) -> bool:
    try:
        return words(stack) == [("committed",)]
    except psycopg.OperationalError:
        return False
