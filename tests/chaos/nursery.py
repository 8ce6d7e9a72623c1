"""Forks the product's processes, since it has loaded everything.

`python -m tests.chaos.nursery` reads requests, one JSON object a line, and answers each with the
child's process id. A child is a process of its own session that runs one of the product's modules
as `python -m` would, after the switches it was given. It dies with the nursery.
"""

import ctypes
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adaptlab.loading import uncollected

ROOT = Path(__file__).parents[2]
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PRELOADED = ("tests.chaos.switches", "adaptlab_api.server", "adaptlab_worker.processes")


class Nursery:
    """The test's end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.nursery"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def bear(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        switches: Sequence[str],
    ) -> int:
        """Start a process; returns its id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {
            "argv": list(argv),
            "environment": dict(environment),
            "log": str(log),
            "switches": list(switches),
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and by that all children that are left."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def serve() -> None:
    """Bear children until the test is gone."""
    with uncollected():
        for name in PRELOADED:
            __import__(name)
        make_routes()
    # What every child has anyway is not looked at again, in any of them.
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, "a fork would leave the other threads behind"
    # Nobody waits for children here: the kernel buries them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            live(asked, parent)
        print(pid, flush=True)


def make_routes() -> None:
    """Read all routes once, so that the API's children have them."""
    from adaptlab_api.openapi import undeployed

    undeployed()


def live(asked: Mapping[str, Any], parent: int) -> None:
    """The life of a child; does not return."""
    status = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        redirect(Path(asked["log"]))
        os.environ.clear()
        os.environ.update(asked["environment"])
        become(asked["argv"], asked["switches"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - a child must never come back into the loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def redirect(log: Path) -> None:
    """Nothing to read, and everything said goes to a file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(nothing)
    os.close(said)


def become(argv: Sequence[str], switches: Sequence[str]) -> None:
    """Run a module of the product with some things changed."""
    from tests.chaos.switches import SWITCHES

    for name in switches:
        SWITCHES[name]()
    sys.argv = list(argv)
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve()
