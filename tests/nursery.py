"""Forks the product's processes, since it has loaded everything.

`python -m tests.nursery MODULE...` loads the modules and then takes requests from its standard
input, a socket. Each starts a child: a process of its own session that runs one of the product's
modules as `python -m` would, after code that the test has given. Between the two is a keeper, which
waits for the child and reports how it ended. All of them die with the nursery.
"""

import ctypes
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from adaptlab.loading import uncollected

ROOT = Path(__file__).parents[1]
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
LARGEST = 150_000  # bytes of a request, which is one packet; the kernel takes 200 KB


class Born:
    """A child of the nursery, used like `subprocess.Popen`."""

    def __init__(self, news: socket.socket) -> None:
        self._news = news
        self.pid = int(news.recv(LARGEST))
        self.returncode: int | None = None

    def __enter__(self) -> "Born":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.leave()

    def leave(self) -> None:
        """Ask no more how it ends."""
        self._news.close()

    def poll(self) -> int | None:
        """Return the exit code, or None if it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal, when it has ended."""
        code = self._look(timeout)
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal if it runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # its keeper has waited for it since
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL if it runs."""
        self.send_signal(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            watched = select.poll()
            watched.register(self._news, select.POLLIN)
            if watched.poll(None if seconds is None else 1000 * seconds):
                # A keeper that was killed says nothing more, and its child died with it.
                self.returncode = int(self._news.recv(LARGEST) or -signal.SIGKILL)
        return self.returncode


class Nursery:
    """The test's end.

    Args:
        modules: what it loads, and children need not.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.nursery", *modules],
                cwd=ROOT,
                stdin=theirs.fileno(),
                start_new_session=True,
            )

    def bear(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        before: str = "",
        inherited: socket.socket | None = None,
    ) -> Born:
        """Start a process.

        Args:
            argv: the module and its arguments.
            environment: all of it.
            log: the file that its output is appended to.
            before: code that is run before the module.
            inherited: a socket, whose number in the process `--fd` gives.
        """
        asked = {
            "argv": list(argv),
            "environment": dict(environment),
            "log": str(log),
            "before": before,
        }
        news, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            passed = [theirs, *([] if inherited is None else [inherited])]
            request = json.dumps(asked).encode()
            assert len(request) <= LARGEST
            socket.send_fds(self._ours, [request], [one.fileno() for one in passed])
        return Born(news)

    def close(self) -> None:
        """End it, and by that all children that are left."""
        self._process.kill()
        self._process.wait()
        self._ours.close()


def serve(modules: Sequence[str]) -> None:
    """Bear children until the test is gone."""
    with uncollected():
        for name in modules:
            __import__(name)
        if "adaptlab_api.server" in modules:
            make_routes()
    # What every child has anyway is not looked at again, in any of them.
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, "a fork would leave the other threads behind"
    signal.signal(signal.SIGCHLD, bury)
    parent = os.getpid()
    with socket.socket(fileno=sys.stdin.fileno()) as requests:
        while True:
            request, passed, *_ = socket.recv_fds(requests, LARGEST, 2)
            if not request:
                return
            if os.fork() == 0:
                keep(json.loads(request), passed, parent)
            for number in passed:
                os.close(number)


def bury(*_: object) -> None:
    """Wait for the keepers that have ended, so that their time is counted."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def make_routes() -> None:
    """Read all routes once, so that the API's children have them."""
    from adaptlab_api.openapi import undeployed

    undeployed()


def keep(asked: Mapping[str, Any], passed: Sequence[int], parent: int) -> None:
    """Start a child and report its id and its end; does not return."""
    try:
        die_with(parent)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        news, *inherited = passed
        keeper = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(news)
            live(asked, inherited, keeper)
        for number in inherited:
            os.close(number)
        os.write(news, b"%d" % pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(BrokenPipeError):  # the test asks no more
            os.write(news, b"%d" % code)
    finally:
        os._exit(0)


def live(asked: Mapping[str, Any], inherited: Sequence[int], parent: int) -> None:
    """The life of a child; does not return."""
    status = 1
    try:
        os.setsid()
        die_with(parent)
        redirect(Path(asked["log"]))
        os.environ.clear()
        os.environ.update(asked["environment"])
        exec(asked["before"], {"__name__": "before"})
        sys.argv = [*asked["argv"], *(word for fd in inherited for word in ("--fd", str(fd)))]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001 - a child must never come back into the loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def redirect(log: Path) -> None:
    """Nothing to read, and everything said goes to a file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(nothing)
    os.close(said)


if __name__ == "__main__":
    serve(sys.argv[1:])
