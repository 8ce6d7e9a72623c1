"""Comparison of mathematical answers, in a process that can be ended.

math-verify bounds its time by signals, which work on the main thread only and replace the alarm of
the caller. Some short texts, such as towers of powers, take hours. So it has its own process.
"""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from select import select
from threading import Lock
from typing import IO, Literal, cast, get_args

from adaptlab.errors import BadDataset

MathsOutcome = Literal["right", "wrong", "unread", "no_reference", "timed_out"]
PACKAGE = "math-verify"
CHILD = Path(__file__).with_name("maths_child.py")
START_SECONDS = 120.0
CPU_SECONDS = 5
"""Of the processor, for one pair."""
WALL_SECONDS = 30.0
"""Of the clock, for one pair that waits instead of computing."""


def installed_version() -> str:
    """Return the version of math-verify.

    Raises:
        BadDataset: it is not installed.
    """
    try:
        return version(PACKAGE)
    except PackageNotFoundError as error:
        raise BadDataset(
            f"Mathematical answers are compared by {PACKAGE}, which is not installed. Install "
            "adaptlab[maths] for the worker, or use another metric."
        ) from error


class MathsProcess:
    """A process that compares answers, started when it is needed.

    One that takes too long is ended, and the next pair starts another.
    """

    def __init__(self, cpu_seconds: int = CPU_SECONDS, wall_seconds: float = WALL_SECONDS) -> None:
        self._cpu_seconds, self._wall_seconds = cpu_seconds, wall_seconds
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()

    def outcome(self, right: str, given: str) -> MathsOutcome:
        """Return how a given answer compares with the right one.

        A pair that takes too much time or memory is `timed_out`, whatever the answer is.

        Raises:
            BadDataset: math-verify is not installed or does not start.
        """
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps([right, given]) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                found = None
            else:
                found = _line(process, self._wall_seconds)
            if found is None:
                self._end()
                return "timed_out"
        assert found in get_args(MathsOutcome)
        return cast("MathsOutcome", found)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            installed_version()
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(CHILD), str(self._cpu_seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
            if _line(self._process, START_SECONDS) != "ready":
                self._end()
                raise BadDataset(
                    f"{PACKAGE} does not start. Install adaptlab[maths] for the worker again."
                )
        return self._process

    def _end(self) -> None:
        if (process := self._process) is not None:
            self._process = None
            process.kill()
            process.communicate()  # closes its pipes


def _line(process: "subprocess.Popen[str]", seconds: float) -> str | None:
    """Return the next line of a process as JSON.

    None if the process ended, or wrote none in this time.
    """
    output = cast("IO[str]", process.stdout)
    ready, _, _ = select([output], [], [], seconds)
    text = output.readline() if ready else ""
    return json.loads(text) if text else None
