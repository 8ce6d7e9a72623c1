"""What this machine has that a worker needs; torch is asked in a process of its own."""

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
        one = torch.cuda.get_device_properties(number)
        torch.ones(1, device=f"cuda:{number}").sum().item()
        gpus.append(f"{one.name}, {one.total_memory / 2**30:.0f} GiB")
print(json.dumps({"version": torch.__version__, "gpus": gpus}))
"""


LANDLOCK_CREATE_RULESET, LANDLOCK_CREATE_RULESET_VERSION = 444, 1  # <linux/landlock.h>


class Torch(NamedTuple):
    """What torch said of itself; `fault` is why it could not."""

    version: str | None
    gpus: tuple[str, ...] = ()
    fault: str | None = None


def torch_here(python: str = sys.executable) -> Torch | None:
    """The torch of this Python and the GPUs that it can compute on; None where it has none."""
    if find_spec("torch") is None:  # which looks and does not import
        return None
    try:
        done = subprocess.run(
            [python, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Torch(None, fault=f"torch did not load in {PROBE_SECONDS:.0f} s")
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return Torch(None, fault=said[-1] if said else f"exit status {done.returncode}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Torch(str(told["version"]), tuple(str(one) for one in told["gpus"]))


def gpus_of_the_driver() -> tuple[str, ...]:
    """The GPUs and the driver that `nvidia-smi` tells of; empty where there is no such program."""
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(done.stdout.splitlines()) if done.returncode == 0 else ()


def landlock_version() -> int:
    """Return the version of the kernel's rules for files, by which a worker confines; 0 is none."""
    if sys.platform != "linux":
        return 0
    ask = ctypes.CDLL(None).syscall
    return max(0, int(ask(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)))
