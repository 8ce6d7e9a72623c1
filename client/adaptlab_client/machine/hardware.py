"""Torch, GPUs and Landlock on this machine."""

import ctypes
import json
import subprocess
import sys
from importlib.util import find_spec
from typing import NamedTuple

PROBE_SECONDS = 120.0
_PROBE = """
import json, torch
gpus = []
if torch.cuda.is_available():
    for number in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(number)
        torch.ones(1, device=f"cuda:{number}").sum().item()
        gpus.append(f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB")
print(json.dumps({"version": torch.__version__, "gpus": gpus}))
"""


LANDLOCK_CREATE_RULESET, LANDLOCK_CREATE_RULESET_VERSION = 444, 1  # <linux/landlock.h>


class Torch(NamedTuple):
    """Version and GPUs of the installed torch, or the `fault` that stops it."""

    version: str | None
    gpus: tuple[str, ...] = ()
    fault: str | None = None


def torch_here(python: str = sys.executable) -> Torch | None:
    """Return the torch of this Python and its usable GPUs, or None.

    Torch is loaded in a process of its own.
    """
    if find_spec("torch") is None:  # does not import it
        return None
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Torch(None, fault=f"torch did not load in {PROBE_SECONDS:.0f} s")
    if probe.returncode:
        errors = probe.stderr.strip().splitlines()
        return Torch(None, fault=errors[-1] if errors else f"exit status {probe.returncode}")
    report = json.loads(probe.stdout.splitlines()[-1])
    return Torch(str(report["version"]), tuple(str(gpu) for gpu in report["gpus"]))


def gpus_of_the_driver() -> tuple[str, ...]:
    """Return the GPUs and drivers that `nvidia-smi` lists, if it is installed."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(done.stdout.splitlines()) if done.returncode == 0 else ()


def landlock_version() -> int:
    """Return the kernel's Landlock version, 0 if it has none.

    Workers use Landlock to confine trainers to their own files.
    """
    if sys.platform != "linux":
        return 0
    call = ctypes.CDLL(None).syscall
    return max(0, int(call(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)))
