"""Comparison of mathematical answers, in a process that can be ended.

math-verify bounds its time by signals, which work on the main thread only and replace the alarm of
the caller. Some short texts, such as towers of powers, take hours. So it has its own process.
"""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, cast, get_args

from adaptlab.errors import BadDataset
from adaptlab.text.bounded_process import BoundedProcess

MathsOutcome = Literal["right", "wrong", "unread", "no_reference", "timed_out"]
PACKAGE = "math-verify"
CHILD = Path(__file__).with_name("maths_child.py")
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
        failure = f"{PACKAGE} does not start. Install adaptlab[maths] for the worker again."
        self._process = BoundedProcess(CHILD, cpu_seconds, wall_seconds, failure)

    def outcome(self, right: str, given: str) -> MathsOutcome:
        """Return how a given answer compares with the right one.

        A pair that takes too much time or memory is `timed_out`, whatever the answer is.

        Raises:
            BadDataset: math-verify is not installed or does not start.
        """
        installed_version()
        found = self._process.answer([right, given]) or "timed_out"
        assert found in get_args(MathsOutcome)
        return cast("MathsOutcome", found)

    def close(self) -> None:
        """End the process."""
        self._process.close()
