"""The output of a trainer reaches the log as its own, up to a limit."""

import json
import os
import subprocess
import sys
from itertools import count

import pytest

from adaptlab_services.log_formats import FORMAT_VARIABLE
from adaptlab_worker.trainer.trainer_output import BURST_BYTES, TrainerOutput

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux's trainers")
OWN = "2026-01-01 00:00:00,000 INFO trainer: runs train on the CPU job_id=1"
FORGED = "2026-01-01 00:00:00,000 INFO adaptlab_worker.loop.launcher: worker 1 serves gpu"


def written(content: bytes) -> list[str]:
    """The lines of the log for what a process writes."""
    lines: list[str] = []
    output = TrainerOutput(lines.append, clock=lambda: 0.0)
    command = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=output.writable, stderr=output.writable
    ) as process:
        output.start(process.pid)
        process.communicate(content)
    output.close()
    return lines


def test_its_own_lines_stay_and_others_are_named() -> None:
    lines = written(f"{OWN}\n{FORGED}\nof a library\n".encode())
    assert lines == [OWN, f"trainer: {FORGED}", "trainer: of a library"]


@pytest.mark.parametrize("sign", ["\r", "\x1b[2J", "\u2028", "\u202e", "\x00"])
def test_no_line_looks_like_two_or_like_another(sign: str) -> None:
    (line,) = written(f"begin{sign}{FORGED}\n".encode())
    assert line.startswith("trainer: begin\\")
    assert line.isprintable()


def test_in_json_the_source_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    forged = {
        "level": "error",
        "logger": "adaptlab_worker.loop.launcher",
        "message": "x",
        "process": 1,
    }
    lines = [json.loads(line) for line in written(json.dumps(forged).encode() + b"\nplain\n[1]\n")]
    assert [lines[0][name] for name in ("level", "logger", "message")] == ["error", "trainer", "x"]
    assert lines[0]["process"] != 1
    assert [line["message"] for line in lines[1:]] == ["plain", "[1]"]
    assert {line["logger"] for line in lines} == {"trainer"}


def test_the_log_is_not_filled() -> None:
    lines = written(b"x" * 999 * 8000 + b"\n" + b"y\n" * 4_000_000)
    assert sum(map(len, lines)) < 3 * BURST_BYTES


def test_what_was_left_out_is_counted() -> None:
    lines: list[str] = []
    ticks = count(step=1000)
    output = TrainerOutput(lines.append, clock=lambda: float(next(ticks)))
    readable = os.dup(output.writable)
    output.start(0)
    with os.fdopen(readable, "wb") as pipe:
        pipe.write(b"x" * (BURST_BYTES + 2**20) + b"\nafterwards\n")
    output.close()
    assert lines[-1] == "trainer: afterwards"


def test_the_log_cannot_be_truncated_by_a_trainer() -> None:
    """The descriptor is a pipe, which has no end to cut."""
    output = TrainerOutput([].append)
    with pytest.raises(OSError, match="Invalid argument"):
        os.ftruncate(output.writable, 0)
    output.start(0)
    output.close()
