"""Stand-ins for the engine that write down what a trainer can do."""

import ctypes
import json
import mmap
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.stand_ins import Observer, checkpoint_of
from tests.worker.runners import Given, complete, finish, refusal, runner

from adaptlab.runs.events import CheckpointWritten, TrainingSaved
from adaptlab.runs.inputs import PlacedInputs
from adaptlab.specs.resolved import Resolved

MIB = 2**20
NO_PORT = 1
"""Of `tcpmux`, which nobody runs: who gets through to it is told so at once."""
KNOCK = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", 1))
except PermissionError:
    sys.exit(13)
"""
PR_GET_DUMPABLE = 3  # <linux/prctl.h>
LIMITS = ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_DATA", "RLIMIT_NPROC")


@runner
def look_about(given: Given) -> None:
    """Tells what the trainer is, has and may, and then does the job."""
    _tell("report", _report(given))
    finish(given)


@runner
def devour(given: Given) -> None:
    """Takes memory until there is no more."""
    held: list[bytearray] = []
    while True:
        held.append(bytearray(64 * MIB))


def _report(given: Given) -> dict[str, Any]:
    parent = Path(f"/proc/{os.getppid()}")
    beside = given.bases[0].parent / "planted" if given.bases else given.scratch.parent / "planted"
    return {
        "user": os.geteuid(),
        "status": _status(),
        "environment": dict(os.environ),
        "arguments": Path("/proc/self/cmdline").read_text().split("\0"),
        "files": sorted(str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in _descriptors()),
        "limits": {name: resource.getrlimit(getattr(resource, name))[1] for name in LIMITS},
        "oom": Path("/proc/self/oom_score_adj").read_text().strip(),
        "worker_environment": refusal(lambda: (parent / "environ").read_bytes()),
        "worker_files": refusal(lambda: (parent / "fd" / "1").readlink()),
        "beside": refusal(lambda: beside.write_text("x")),
        "network": refusal(lambda: socket.create_connection(("127.0.0.1", NO_PORT))),
        "network_of_a_child": subprocess.run([sys.executable, "-c", KNOCK], check=False).returncode,
        "local_socket": refusal(lambda: socket.socket(socket.AF_UNIX).close()),
        "leave_the_group": refusal(lambda: subprocess.run(["true"], start_new_session=True)),
        "trace": _trace(),
        "signal": refusal(lambda: os.kill(os.getppid(), 0)),
        "signal_to_a_child": subprocess.run(["sh", "-c", "kill $$"], check=False).returncode,
        "dumpable": ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
        "temporary": _temporary_file(),
        "own": str(given.scratch),
        "become_root": refusal(lambda: os.setuid(0) if os.geteuid() else os.setuid(65534)),
        "bases": [base.read_bytes().decode() for base in given.bases],
        "base": [refusal(lambda base=base: base.write_text("poison")) for base in given.bases],
    }


def _trace() -> str:
    """The result of asking to be traced by the parent."""
    libc = ctypes.CDLL(None, use_errno=True)
    return "done" if libc.ptrace(0, 0, 0, 0) == 0 else os.strerror(ctypes.get_errno())


def _temporary_file() -> tuple[str, int]:
    """A temporary file that is left behind, and what its mode allows."""
    descriptor, path = tempfile.mkstemp()
    os.close(descriptor)
    beside = Path(path).with_suffix(".plain")
    beside.write_text("for nobody else")
    return path, stat.S_IMODE(beside.stat().st_mode)


def _descriptors() -> list[int]:
    return [fd for fd in range(200) if os.path.lexists(f"/proc/self/fd/{fd}")]


def _status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _tell(name: str, value: object) -> None:
    place = Path(os.environ["RUNNER_CONTROL"]) / name
    partial = place.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.rename(place)


@runner
def link_elsewhere(given: Given) -> None:
    """Reports a checkpoint that is a link to somebody else's file."""
    link = given.scratch / "checkpoint.safetensors"
    link.symlink_to("/etc/hostname")
    given.observer.emit(CheckpointWritten(checkpoint=checkpoint_of(given.spec), path=link))


@runner
def pipe_instead(given: Given) -> None:
    """Says that its checkpoint is a pipe, which gives nothing and never ends."""
    pipe = given.scratch / "checkpoint.safetensors"
    os.mkfifo(pipe)
    given.observer.emit(CheckpointWritten(checkpoint=checkpoint_of(given.spec), path=pipe))


@runner
def remove_elsewhere(given: Given) -> None:
    """Reports saved states in another's file, whose older ones get removed."""
    victim = Path(os.environ["RUNNER_CONTROL"]) / "victim"
    for step in (1, 2):
        place = victim if step == 1 else given.scratch / "state"
        given.observer.emit(TrainingSaved(step=step, path=place))


def tell_resume(
    spec: Resolved,
    inputs: PlacedInputs,
    scratch: Path,
    observer: Observer,
    **_: object,
) -> None:
    """Tells what it was given to go on from, and to measure."""
    state = [inputs.resume.state] if inputs.resume else []
    files = [*inputs.bases, *(adapter.tensors for adapter in inputs.adapters), *state]
    _tell(f"given-{time.monotonic_ns()}", [file.path.read_bytes().decode() for file in files])
    complete(spec, inputs, scratch, observer)


@runner
def share(given: Given) -> None:
    """Takes memory that its processes share, in a child, until it is ended."""
    if os.fork() == 0:
        held = []
        while True:
            shared = mmap.mmap(-1, 64 * MIB)
            shared[:: mmap.PAGESIZE] = b"x" * (len(shared) // mmap.PAGESIZE)
            held.append(shared)
    while True:
        time.sleep(1)


@runner
def multiply(given: Given) -> None:
    """Takes memory in eight processes, none of which has too much."""
    for _ in range(8):
        if os.fork() == 0:
            held = bytearray(b"x" * (256 * MIB))
            while held:
                time.sleep(1)
    while True:
        time.sleep(1)
