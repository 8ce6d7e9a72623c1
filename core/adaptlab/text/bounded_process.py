"""A process that answers lines of JSON, each within limits of time.

Some comparisons of short texts take hours, and nothing in a thread can stop them.
"""

import json
import subprocess
import sys
from pathlib import Path
from select import select
from threading import Lock
from typing import IO, cast

from adaptlab.errors import BadDataset

START_SECONDS = 120.0


class BoundedProcess:
    """A process of a Python file, started when it is needed.

    The file answers each line of stdin with one on stdout, both JSON, and writes `"ready"` first.
    Its argument is the limit on the processor's seconds for a line. One that takes too long is
    ended, and the next line starts another.

    Attributes:
        child: the file; it cannot import what the current folder has.
        cpu_seconds: of the processor, for one line.
        wall_seconds: of the clock, for one line that waits instead of computing.
        failure: the error if it does not start.
    """

    def __init__(self, child: Path, cpu_seconds: int, wall_seconds: float, failure: str) -> None:
        self._child, self._failure = child, failure
        self._cpu_seconds, self._wall_seconds = cpu_seconds, wall_seconds
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()

    def answer(self, request: object) -> object | None:
        """Return the answer to a request, None if it took too long.

        Raises:
            BadDataset: the process does not start.
        """
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                found = None
            else:
                found = _line(process, self._wall_seconds)
            if found is None:
                self._end()
            return found

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(self._child), str(self._cpu_seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
            if _line(self._process, START_SECONDS) != "ready":
                self._end()
                raise BadDataset(self._failure)
        return self._process

    def _end(self) -> None:
        if (process := self._process) is not None:
            self._process = None
            process.kill()
            process.communicate()  # closes its pipes


def _line(process: "subprocess.Popen[str]", seconds: float) -> object | None:
    """Return the next line of a process as JSON.

    None if the process ended, or wrote none in this time.
    """
    output = cast("IO[str]", process.stdout)
    ready, _, _ = select([output], [], [], seconds)
    text = output.readline() if ready else ""
    return json.loads(text) if text else None
