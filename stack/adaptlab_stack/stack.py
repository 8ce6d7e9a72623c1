"""A running stack as a value, for the demo and for tests."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from adaptlab_stack.data_directory import DataDirectory, StackState, tail
from adaptlab_stack.errors import NothingRuns, RequestFailed, StartFailed, StopTimedOut
from adaptlab_stack.process import WITHOUT_BYTE_CODE, describe_exit, tie_to_parent
from adaptlab_stack.signs_of_life import SILENCE_SECONDS, SignsOfLife
from adaptlab_stack.supervisor import AWAITING

LOOK_SECONDS = 0.05
STOP_SECONDS = 10.0
MARGIN_SECONDS = 30.0
"""For the supervisor, which gives up a silent process itself, to end the others."""
UP_COMMAND = (sys.executable, "-m", "adaptlab_stack", "up")


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A supervised process that is currently running."""

    pid: int


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that runs under a supervisor in a process of its own.

    Attributes:
        pid: the supervisor's process id.
        url: the API's address.
        database_url: the database, with its password.
        broker_url: the broker, with its password.
    """

    data_dir: Path
    pid: int
    url: str
    database_url: str
    broker_url: str

    @property
    def token(self) -> str:
        """The admin token."""
        return DataDirectory(self.data_dir).token.read_text().strip()

    @property
    def processes(self) -> Mapping[str, RunningProcess]:
        """The running supervised processes, by name."""
        running = DataDirectory(self.data_dir).read_state().processes
        return {name: RunningProcess(pid) for name, pid in running.items()}

    def log(self, name: str) -> str:
        """Return the last 200 lines of a process's log; `up` is the supervisor."""
        return tail(DataDirectory(self.data_dir).log(name), 200)

    @staticmethod
    @contextmanager
    def start(
        data_dir: Path,
        *,
        port: int | None = None,
        workers: int = 1,
        servers: int = 1,
        environment: Mapping[str, str | None] | None = None,
        command: tuple[str, ...] = UP_COMMAND,
        report: Callable[[str], None] = lambda _: None,
        keep: bool = False,
    ) -> "Generator[Stack]":
        """Run `adaptlab up` during the block.

        Args:
            data_dir: created if it does not exist.
            port: the API's; None means the default one or a free one.
            workers: number of worker processes.
            servers: number of API processes.
            environment: changes to the caller's own; None removes a variable.
            command: replaces `python -m adaptlab_stack up`.
            report: takes a line about what is awaited, if a start takes long.
            keep: leave it running after a block that did not raise; `stop` ends it.

        Raises:
            StartFailed: the supervisor ended, or was silent for too long.
        """
        directory = DataDirectory.open(data_dir)
        options = ("--data-dir", str(directory.root), "--workers", str(workers))
        server_option = () if servers == 1 else ("--servers", str(servers))
        port_option = () if port is None else ("--port", str(port))
        argv = (*command, *options, *server_option, *port_option)
        supervisor = _launch(argv, directory, environment or {}, outlives_caller=keep)
        try:
            _await_announcement(supervisor, directory, report)
            yield Stack.attach(directory, supervisor.pid)
        except BaseException:
            _end(supervisor)
            raise
        if not keep:
            _end(supervisor)

    @staticmethod
    def attach(directory: DataDirectory, pid: int) -> "Stack":
        """Return the stack that the supervisor with this id runs in a directory."""
        endpoints = directory.read_state().endpoints
        return Stack(
            directory.root, pid, endpoints.url, endpoints.database_url, endpoints.broker_url
        )


def stop(data_dir: Path, timeout: float = STOP_SECONDS) -> bool:
    """Stop the stack of a data directory; return False if none runs there.

    Raises:
        StopTimedOut: it still runs `timeout` seconds after the signal to stop.
    """
    directory = DataDirectory(data_dir.resolve())
    pid = directory.holder()
    if pid is None:
        return False
    with suppress(ProcessLookupError):  # it has ended since
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while directory.holder() is not None:
        if time.monotonic() > deadline:
            raise StopTimedOut(directory.root, pid)
        time.sleep(LOOK_SECONDS)
    return True


def request(data_dir: Path, number: signal.Signals, timeout: float) -> None:
    """Send a request to a running stack, and wait until it is served.

    Args:
        data_dir: the data directory.
        number: one of `REQUEST_SIGNALS`.
        timeout: seconds to wait.

    Raises:
        NothingRuns: no stack runs there.
        SupervisorTooOld: it serves no requests.
        RequestFailed: it could not be served, or not in time.
    """
    directory = DataDirectory(data_dir.resolve())
    pid = directory.holder()
    if pid is None or not directory.state_file.exists():
        raise NothingRuns(directory.root)
    served = directory.read_state().requests
    try:
        os.kill(pid, number)
    except ProcessLookupError as error:
        raise NothingRuns(directory.root) from error
    deadline = time.monotonic() + timeout
    while (state := _state_of(directory, pid)).requests == served:
        if time.monotonic() > deadline:
            raise RequestFailed(f"not done after {timeout:.0f} s; see {directory.logs}")
        time.sleep(LOOK_SECONDS)
    if state.problem is not None:
        raise RequestFailed(state.problem)


def _state_of(directory: DataDirectory, pid: int) -> StackState:
    if directory.holder() != pid:
        raise RequestFailed(f"the server in {directory.root} was stopped meanwhile")
    return directory.read_state()


def _launch(
    argv: tuple[str, ...],
    directory: DataDirectory,
    environment: Mapping[str, str | None],
    outlives_caller: bool,
) -> subprocess.Popen[bytes]:
    merged = {**os.environ, WITHOUT_BYTE_CODE: None, **environment}
    in_main_thread = threading.current_thread() is threading.main_thread()
    tied = in_main_thread and not outlives_caller
    with directory.log("up").open("wb") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={name: value for name, value in merged.items() if value is not None},
            # Its own session: Ctrl-C reaches only the caller, and the end of the block stops this.
            start_new_session=True,
            preexec_fn=tie_to_parent(signal.SIGTERM) if tied else None,
        )


def _await_announcement(
    supervisor: subprocess.Popen[bytes], directory: DataDirectory, report: Callable[[str], None]
) -> None:
    log, reported = directory.log("up"), 0
    signs = SignsOfLife(log)
    while not directory.announced_by(supervisor.pid):
        if (status := supervisor.poll()) is not None:
            raise StartFailed("adaptlab up", describe_exit(status), log, tail(log))
        silence = signs.silence(supervisor.pid)
        if silence > SILENCE_SECONDS + MARGIN_SECONDS:
            raise StartFailed("adaptlab up", f"was silent for {silence:.0f} s", log, tail(log))
        awaited = [line for line in tail(log, 200).splitlines() if line.startswith(AWAITING)]
        for line in awaited[reported:]:
            report(line)
        reported = len(awaited)
        time.sleep(LOOK_SECONDS)


def _end(supervisor: subprocess.Popen[bytes]) -> None:
    supervisor.terminate()
    try:
        supervisor.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()
