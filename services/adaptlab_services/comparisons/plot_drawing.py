"""Charts as SVG, drawn in a process of their own.

The renderer contains a JavaScript engine, whose 100 MB a server would never release. The process
ends with the last chart and releases them.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import IO

from adaptlab.charts import Chart
from adaptlab.errors import AdaptlabError

DRAWERS = 1
"""Limit on drawing processes per server process; callers enforce it."""
LONGEST_SECONDS = 300.0


class DrawingFailed(AdaptlabError):
    """The drawing process ended unexpectedly or took too long."""


def drawn(charts: Iterable[tuple[str, Chart]]) -> Iterator[tuple[str, bytes]]:
    """Yield each chart as SVG with its name; raises `DrawingFailed`."""
    process = started()
    end = threading.Timer(LONGEST_SECONDS, process.kill)
    end.start()
    try:
        for name, chart in charts:
            yield name, picture_by(process, chart)
    finally:
        end.cancel()
        process.kill()
        process.communicate()


def started() -> subprocess.Popen[bytes]:
    """Start the drawing process."""
    return subprocess.Popen(
        [sys.executable, "-m", "adaptlab_services.comparisons.plot_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    )


def picture_by(process: subprocess.Popen[bytes], chart: Chart) -> bytes:
    """Return a chart as SVG; raises `DrawingFailed` if the process ends."""
    stdin, stdout = _pipes(process)
    try:
        stdin.write(json.dumps(chart).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
    except OSError as error:
        raise DrawingFailed(f"The plots could not be drawn: {error}.") from error
    if not line.endswith(b"\n"):
        raise DrawingFailed(
            "The plots could not be drawn: the drawing process ended early or exceeded its "
            f"{LONGEST_SECONDS:g} s. Try again."
        )
    return json.loads(line).encode()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _environment() -> dict[str, str]:
    """Return the environment without our settings, such as database passwords."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ADAPTLAB_")}
