"""Charts as SVG, drawn by a process of their own.

The renderer holds a JavaScript engine: 100 MB that a server would never give back. The process
ends with the last chart, and takes the memory with it.
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
"""Processes that draw at a time, for one server process; whoever asks for more waits elsewhere."""
LONGEST_SECONDS = 300.0


class DrawingFailed(AdaptlabError):
    """The process that draws ended, or took too long."""


def drawn(charts: Iterable[tuple[str, Chart]]) -> Iterator[tuple[str, bytes]]:
    """The charts as SVG, each with its name, one after the other; raises `DrawingFailed`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "adaptlab_services.comparisons.plot_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    )
    end = threading.Timer(LONGEST_SECONDS, process.kill)
    end.start()
    try:
        for name, chart in charts:
            yield name, _picture(process, chart)
    finally:
        end.cancel()
        process.kill()
        process.communicate()


def _picture(process: subprocess.Popen[bytes], chart: Chart) -> bytes:
    asked, answered = _pipes(process)
    try:
        asked.write(json.dumps(chart).encode() + b"\n")
        asked.flush()
        line = answered.readline()
    except OSError as error:
        raise DrawingFailed(f"The plots could not be drawn: {error}.") from error
    if not line.endswith(b"\n"):
        raise DrawingFailed("The process that draws the plots ended too early.")
    return json.loads(line).encode()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _environment() -> dict[str, str]:
    """Nothing of ours: where the database is, and with which password, is not for who draws."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ADAPTLAB_")}
