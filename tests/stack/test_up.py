"""The whole stack with stand-ins for API, worker and beat; servers and supervisor are real."""

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
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import psycopg
import pytest
import redis

from adaptlab_stack import postgres, valkey
from adaptlab_stack.errors import PortTaken, StartFailed
from adaptlab_stack.ports import api_socket, port_of, url_of
from adaptlab_stack.process import ProcessSpec, StopStep
from adaptlab_stack.servers import embedded_servers
from adaptlab_stack.stack import Stack

Descendants = Callable[[int], list[psutil.Process]]
Eventually = Callable[[Callable[[], bool], float], None]


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
    """Those that do not end; what a busy machine and its disk make of five seconds is theirs."""
    return psutil.wait_procs(processes, timeout=60)[1]


def test_the_steps_of_a_stop_take_less_than_five_seconds():
    """Stage after stage, and then nobody is asked any more."""

    def seconds(steps: tuple[StopStep, ...]) -> float:
        return sum(step.seconds for step in steps)

    of_applications = ProcessSpec("any", (), {}, Path()).stop
    assert seconds(of_applications) + max(seconds(postgres.STOP), seconds(valkey.STOP)) < 5


def test_a_stack_says_where_it_is(tmp_path: Path, stand_in_up: tuple[str, ...]):
    data = tmp_path / "a folder with 'spaces'"
    with Stack.start(data, command=stand_in_up, workers=2) as stack:
        assert status_of(stack.url) == 200
        assert stack.token == "a-token"
        assert set(stack.processes) == {"postgres", "valkey", "api", "worker", "worker-2", "beat"}
        announced = json.loads((data / "server.json").read_text())
        assert announced == {"url": stack.url, "pid": stack.pid}
        for name in ("server.json", "stack.json", "token", "credentials.json"):
            assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
        assert not data.stat().st_mode & 0o066
        said = stack.log("up")
        assert all(part in said for part in (stack.url, str(data), "127.0.0.1:"))
        secret = urlsplit(stack.database_url).password
        assert secret is not None
        assert secret not in said
    assert not (data / "server.json").exists()
    assert not (data / "stack.json").exists()


def test_a_signal_stops_everything(
    tmp_path: Path, stand_in_up: tuple[str, ...], descendants: Descendants
):
    # The worst case: a client stays connected, and the worker does not listen.
    stubborn = {"STAND_IN_STUBBORN": "1"}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with Stack.start(tmp_path / "d", command=stand_in_up, environment=stubborn) as stack:
            with connect(stack):
                family = [psutil.Process(stack.pid), *descendants(stack.pid)]
                assert len(family) > 6
                os.kill(stack.pid, number)
                assert left_of(family) == [], number
            assert "stopped in" in stack.log("up")  # each start begins its log again
        assert not (tmp_path / "d" / "server.json").exists()


def test_kill_9_of_the_supervisor_leaves_nothing_and_the_next_start_recovers(
    tmp_path: Path, stand_in_up: tuple[str, ...], descendants: Descendants
):
    with Stack.start(tmp_path / "d", command=stand_in_up) as stack:
        with redis.Redis.from_url(stack.broker_url) as client:
            client.rpush("queue", "a message")
        with connect(stack) as held:
            held.execute("INSERT INTO kept VALUES ('committed')")
            family = descendants(stack.pid)
            os.kill(stack.pid, signal.SIGKILL)
            # At once, while the old servers may still be going down.
            with Stack.start(tmp_path / "d", command=stand_in_up) as second:
                assert words(second) == [("committed",)]
                with redis.Redis.from_url(second.broker_url) as client:
                    assert client.lrange("queue", 0, -1) == [b"a message"]
            assert left_of(family) == []


def test_kill_9_alone_empties_the_house(
    tmp_path: Path,
    stand_in_up: tuple[str, ...],
    descendants: Descendants,
    eventually: Eventually,
):
    with Stack.start(tmp_path / "d", command=stand_in_up) as stack:
        worker = psutil.Process(stack.processes["worker"].pid)
        eventually(lambda: len(worker.children()) == 1, 60)  # the trainer
        with connect(stack):
            family = descendants(stack.pid)
            assert len(family) > 6
            os.kill(stack.pid, signal.SIGKILL)
            assert left_of(family) == []


def test_a_killed_part_comes_back(
    tmp_path: Path, stand_in_up: tuple[str, ...], eventually: Eventually
):
    def answers() -> bool:
        try:
            return status_of(stack.url) == 200
        except (OSError, http.client.HTTPException):
            return False

    def is_new(name: str, old: int) -> bool:
        return name in (now := stack.processes) and now[name].pid != old

    with Stack.start(tmp_path / "d", command=stand_in_up) as stack:
        for name in ("api", "worker", "beat", "postgres", "valkey"):
            old = stack.processes[name].pid
            os.kill(old, signal.SIGKILL)
            eventually(partial(is_new, name, old), 60)
            eventually(answers, 60)
            assert f"{name} was killed by SIGKILL" in stack.log("up")


def test_two_stacks_live_side_by_side(tmp_path: Path, stand_in_up: tuple[str, ...]):
    with (
        Stack.start(tmp_path / "one", command=stand_in_up) as one,
        Stack.start(tmp_path / "two", command=stand_in_up) as two,
    ):
        with connect(one) as connection:
            connection.execute("INSERT INTO kept VALUES ('one')")
        assert words(one) == [("one",)]
        assert words(two) == []
        assert status_of(one.url) == status_of(two.url) == 200


def test_a_directory_in_use_is_refused_and_left_alone(tmp_path: Path, stand_in_up: tuple[str, ...]):
    with Stack.start(tmp_path / "d", command=stand_in_up) as stack:
        second = subprocess.run(
            [*stand_in_up, "--data-dir", str(tmp_path / "d")],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert second.returncode == 1
        assert f"in use by another `adaptlab up` (process {stack.pid})" in second.stderr
        assert "Traceback" not in second.stderr
        assert status_of(stack.url) == 200
        assert json.loads((tmp_path / "d" / "server.json").read_text())["pid"] == stack.pid


def test_a_taken_port_is_refused(tmp_path: Path, stand_in_up: tuple[str, ...]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(StartFailed, match=f"port {port} on 127.0.0.1 cannot be used"),
            Stack.start(tmp_path / "d", command=stand_in_up, port=port),
        ):
            pass


def test_a_wanted_port_is_used(tmp_path: Path, stand_in_up: tuple[str, ...]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Stack.start(tmp_path / "d", command=stand_in_up, port=port) as stack:
        assert stack.url == f"http://127.0.0.1:{port}"


def test_servers_share_one_address_and_stand_in_for_each_other(
    open_path: Path,
    stand_in_up: tuple[str, ...],
    descendants: Callable[[int], list[psutil.Process]],
):
    with Stack.start(open_path / "d", command=stand_in_up, servers=2) as stack:
        servers = [found for found in descendants(stack.pid) if "--fd" in found.cmdline()]
        assert len(servers) == 2
        servers[0].kill()
        for _ in range(20):
            assert httpx.get(stack.url, timeout=60).status_code == 200


def test_without_a_wish_there_is_always_a_port():
    with api_socket("127.0.0.1", None) as first, api_socket("127.0.0.1", None) as second:
        assert port_of(second) != port_of(first)
        with pytest.raises(PortTaken, match="leave --port out"):
            api_socket("127.0.0.1", port_of(first))


def test_addresses_are_those_that_answer_here():
    assert url_of("0.0.0.0", 8420) == "http://127.0.0.1:8420"
    assert url_of("::1", 8420) == "http://[::1]:8420"
    assert url_of("lab.example", 80) == "http://lab.example:80"


def test_a_failed_preparation_is_explained_and_leaves_nothing(
    tmp_path: Path, stand_in_up: tuple[str, ...]
):
    environment = {"STAND_IN_PREPARE": "fail"}
    with (
        pytest.raises(StartFailed, match=r"prepare exited with status 1[\s\S]*on strike"),
        Stack.start(tmp_path / "d", command=stand_in_up, environment=environment),
    ):
        pass
    assert not (tmp_path / "d" / "postgres" / "postmaster.pid").exists()
    with embedded_servers(tmp_path / "d"):
        pass


def test_a_signal_during_the_start_ends_it(
    tmp_path: Path,
    stand_in_up: tuple[str, ...],
    descendants: Descendants,
    eventually: Eventually,
):
    with subprocess.Popen(
        [*stand_in_up, "--data-dir", str(tmp_path / "d")],
        env={**os.environ, "STAND_IN_PREPARE": "hang"},
        stdout=subprocess.PIPE,
        text=True,
    ) as supervisor:
        eventually((tmp_path / "d" / "hanging").exists, 60)
        family = descendants(supervisor.pid)
        supervisor.terminate()
        said, _ = supervisor.communicate(timeout=60)
    assert supervisor.returncode == 0
    assert "stopped before it was ready" in said
    assert left_of(family) == []


def test_given_servers_replace_the_embedded_ones(tmp_path: Path, stand_in_up: tuple[str, ...]):
    with embedded_servers(tmp_path / "servers", durable=False) as servers:
        environment = {
            "ADAPTLAB_DATABASE_URL": servers.database_url,
            "ADAPTLAB_BROKER_URL": servers.broker_url,
        }
        data = tmp_path / "d"
        with Stack.start(data, command=stand_in_up, environment=environment) as stack:
            assert set(stack.processes) == {"api", "worker", "beat"}
            assert stack.database_url == servers.database_url
            assert not (data / "postgres").exists()
        psycopg.connect(servers.database_url.replace("+psycopg", "")).close()


def test_a_stack_dies_with_the_process_that_started_it(
    tmp_path: Path, stand_in_up: tuple[str, ...], descendants: Descendants
):
    code = (
        "import pathlib, signal, sys\n"
        "from adaptlab_stack.stack import Stack\n"
        "with Stack.start(pathlib.Path(sys.argv[1]), command=tuple(sys.argv[2:])) as stack:\n"
        "    print('up', flush=True); signal.pause()"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "d"), *stand_in_up]
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


def test_a_full_disk_ends_nothing_and_is_waited_for(
    small_disk: Path, stand_in_up: tuple[str, ...], eventually: Eventually
):
    """Postgres dies of it, the state of the stack cannot be written, nor can the log."""
    with Stack.start(small_disk / "d", command=stand_in_up) as stack:
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
