"""Confinement of a trainer: resources, privileges, network.

A trainer holds no secrets; this is for the case that a file or a library makes it run unintended
code. The limits here need no permission. Those of a control group do more, but need a delegated
one (`trainer_groups`), which a container, a Slurm step or a plain account rarely has.
"""

import ctypes
import logging
import os
import resource
import sys
from pathlib import Path

from adaptlab.values import Value
from adaptlab_worker.confinement.landlock import FileRules, restrict
from adaptlab_worker.confinement.system_calls import RefusedCalls, refuse_system_calls

LARGEST_FILE = 2**38  # bytes; the weights of one replicate of the largest model, and some more
OPEN_FILES = 4096
PROCESSES = 1024
"""Processes and threads in addition to the user's present ones; the kernel counts by user."""
MORE_WILLING = "500"
"""`oom_score_adj`: if memory runs out, the kernel ends the trainer and not its worker."""
PR_SET_DUMPABLE = 4  # <linux/prctl.h>
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
KEEP_WHEN_USER_CHANGES = 1 << 2  # SECBIT_NO_SETUID_FIXUP <linux/securebits.h>
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522  # <linux/capability.h>
LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
MEMBERS = "cgroup.procs"
"""The file of a control group that lists its processes; one that is written there enters it."""
OWN_ONLY = 0o077  # no other user can read its files

log = logging.getLogger(__name__)


class RunsAs(Value):
    """The user and group to which a root process changes for good.

    With `passes` it keeps the capability to read files regardless of their modes, for a Python in a
    closed folder such as `/root`. Only for processes with rules for files.
    """

    user: int
    group: int
    passes: bool = False


class TrainerLimits(Value):
    """The limits of one trainer.

    `memory_bytes` counts written memory, not mappings, since CUDA maps whole cards; `file_bytes` is
    the largest file that it may write; `network` allows the network, `connections` allows sockets
    of the machine itself, and `shared_memory` memory that it shares without a file. `files` are the
    files that it may open, None for all that its user may; `runs_as` is the user that it becomes,
    None for the same; `group` is the folder of the control group that it enters, None for none.
    """

    memory_bytes: int
    file_bytes: int = LARGEST_FILE
    open_files: int = OPEN_FILES
    processes: int = PROCESSES
    network: bool = False
    connections: bool = False
    shared_memory: bool = False
    files: FileRules | None = None
    runs_as: RunsAs | None = None
    group: str | None = None


def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of its container if less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(CGROUP_MEMORY.read_text()))
    except (OSError, ValueError):  # no such file, or `max`
        return machine


def confine(limits: TrainerLimits) -> None:
    """Confine this process and its children for good.

    Call it before threads start.

    Raises:
        OSError: the kernel refuses the control group, the change of user or the rules for files.
    """
    if limits.group is not None:
        Path(limits.group, MEMBERS).write_text("0")  # this process
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    _limit(resource.RLIMIT_DATA, limits.memory_bytes)
    os.umask(OWN_ONLY)
    if sys.platform == "linux":
        user = os.geteuid() if limits.runs_as is None else limits.runs_as.user
        if user != 0:  # the kernel does not count root's
            _limit(resource.RLIMIT_NPROC, _tasks_of(user) + limits.processes)
        _be_ended_first()
        _become(limits.runs_as)
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
        close_to_others()  # a trainer of another job may be the same user
        if not restrict(limits.files) and limits.files is not None:
            raise OSError("the kernel has no Landlock, so the rules for files cannot hold")
    refused = RefusedCalls(
        network=not limits.network,
        connections=not (limits.network or limits.connections),
        shared_memory=not limits.shared_memory,
    )
    if not refuse_system_calls(refused):
        log.warning("the kernel supports no system call filter: this run can use the network")


def close_to_others() -> None:
    """Deny other processes this one's memory, environment and files.

    A worker's environment holds the password of the database, a trainer's memory the content of a
    job. Root can still read them, unless it lacks capabilities, as in trainers.
    """
    if sys.platform == "linux":
        _prctl(PR_SET_DUMPABLE, 0)


def _limit(which: int, most: int) -> None:
    """Set a limit for good, or keep the present one if it is lower."""
    _, hard = resource.getrlimit(which)
    lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (lowest, lowest))


def _tasks_of(user: int) -> int:
    """Return the number of a user's processes and threads."""
    count = 0
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
        return  # /proc is not writable, so the kernel's own choice stands


def _become(runs_as: RunsAs | None) -> None:
    """Become that user, without root's privileges except, on request, one.

    None can be regained by starting another program. A process that stays root is then an ordinary
    user who owns root's files.
    """
    passes = runs_as is not None and runs_as.passes
    if os.geteuid() == 0:
        for capability in range(int(LAST_CAPABILITY.read_text()) + 1):
            if not (passes and capability == CAP_DAC_READ_SEARCH):
                ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if passes:
        _prctl(PR_SET_SECUREBITS, KEEP_WHEN_USER_CHANGES)
    if runs_as is not None:
        os.setgroups([])
        os.setresgid(runs_as.group, runs_as.group, runs_as.group)
        os.setresuid(runs_as.user, runs_as.user, runs_as.user)
    _keep_capabilities(1 << CAP_DAC_READ_SEARCH if passes else 0)
    if passes:  # also for programs that it starts, such as compilers
        _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH)


def _keep_capabilities(kept: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # Effective, permitted, inheritable: the lower 32 bits of each, then the upper.
    data = (ctypes.c_uint32 * 6)(kept, kept, kept, 0, 0, 0)
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities cannot be dropped")


def _prctl(option: int, *values: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, *map(ctypes.c_ulong, (*values, 0, 0, 0, 0)[:4])) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} is refused")
