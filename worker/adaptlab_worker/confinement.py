"""What a trainer is kept from: resources beyond its limits, privileges, others, and the network.

A trainer holds no key to anything; this is for the day on which a file or a library makes it run
what nobody meant to run. cgroups were weighed: they do more, and need a delegated group, which a
container, a Slurm step or a plain account seldom has; what is set here needs no permission.
"""

import ctypes
import logging
import os
import resource
import sys
from pathlib import Path

from adaptlab.values import Value
from adaptlab_worker.system_calls import keep_signals_inside, refuse_system_calls

LARGEST_FILE = 2**38  # bytes; the weights of one replicate of the largest model, and some more
OPEN_FILES = 4096
PROCESSES = 1024
"""Processes and threads beside those that the user runs already; the kernel counts by user."""
MORE_WILLING = "500"
"""Of a thousand: where memory runs out, the kernel ends the trainer and not its worker."""
PR_SET_DUMPABLE = 4  # <linux/prctl.h>
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522  # <linux/capability.h>
LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
OWN_ONLY = 0o077  # what it writes is for nobody else of the machine

log = logging.getLogger(__name__)


class Limits(Value):
    """What one trainer may hold at most.

    `memory_bytes` counts what it writes to, not what it only maps, as CUDA maps whole cards;
    `file_bytes` is the largest file that it may write, and `network` says whether it may use one.
    """

    memory_bytes: int
    file_bytes: int = LARGEST_FILE
    open_files: int = OPEN_FILES
    processes: int = PROCESSES
    network: bool = False


def machine_memory() -> int:
    """The bytes of memory of this machine, or of the container if it has fewer."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(CGROUP_MEMORY.read_text()))
    except (OSError, ValueError):  # no such file, or `max`
        return machine


def confine(limits: Limits) -> None:
    """Limit this process and all that it starts, for good; to be called before threads start."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    _limit(resource.RLIMIT_DATA, limits.memory_bytes)
    os.umask(OWN_ONLY)
    if sys.platform == "linux":
        if os.geteuid() != 0:  # of root the kernel does not count them
            _limit(resource.RLIMIT_NPROC, _tasks_of_user() + limits.processes)
        _be_ended_first()
        _drop_capabilities()
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
        close_to_others()  # a trainer of another job may be the same user
        keep_signals_inside()
    if not refuse_system_calls(network=not limits.network):
        log.warning("the kernel takes no filter of system calls: the network is open to this run")


def close_to_others() -> None:
    """Let no process of the same user read this one's memory, environment or open files.

    A worker's environment holds the password of the database, a trainer's memory what a job is
    about. Root reads it all the same, unless it has no capabilities, as trainers have none.
    """
    if sys.platform == "linux":
        _prctl(PR_SET_DUMPABLE, 0)


def _limit(which: int, most: int) -> None:
    """Set a limit for good, or keep the present one if that is lower."""
    _, hard = resource.getrlimit(which)
    lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (lowest, lowest))


def _tasks_of_user() -> int:
    """How many processes and threads this user runs."""
    user, count = os.geteuid(), 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == user:
                count += sum(1 for _ in (process / "task").iterdir())
        except OSError:
            continue  # it ended meanwhile
    return count


def _be_ended_first() -> None:
    try:
        Path("/proc/self/oom_score_adj").write_text(MORE_WILLING)
    except OSError:
        return  # where /proc is not writable, the kernel chooses as it does


def _drop_capabilities() -> None:
    """Keep none of root's privileges, and gain none by starting another program.

    What is left of a root without capabilities is an ordinary user who owns root's files.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        for capability in range(int(LAST_CAPABILITY.read_text()) + 1):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits of each
    if libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities cannot be dropped")


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} is refused")
