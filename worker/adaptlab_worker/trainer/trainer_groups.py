"""A control group (cgroup v2) per trainer, where a group is delegated.

It limits what a run's processes use together: memory, shared memory and files in memory included,
and their number. Without a delegated group, the limits of `confinement` hold for each process.

The packages on the registry (`cgroupspy`, `cgroup-utils`, `libcgroup`, last released in 2019 to
2024) were considered: a group is a folder with six small files. systemd would have to be asked by
D-Bus, which containers lack.
"""

import errno
import itertools
import logging
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from adaptlab.control_groups import controllers, delegated_group
from adaptlab_worker.confinement.confinement import MEMBERS, TrainerLimits
from adaptlab_worker.trainer.memory_kills import kills_in

OTHERS = "adaptlab"
"""The group of the worker and its neighbours: one that is divided can have no processes itself."""
PREFIX = "trainer-"
CONTROLLERS = ("memory", "pids")
MOVES = 50  # of processes; others may be started meanwhile
REMOVAL_SECONDS = 2.0
LOOK_SECONDS = 0.02

log = logging.getLogger(__name__)


class TrainerGroup:
    """The control group of one trainer and its children.

    Attributes:
        path: its folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def ran_out_of_memory(self) -> bool:
        """Return True if the kernel killed it because memory ran out."""
        return bool(kills_in(self.path / "memory.events"))

    def remove(self) -> None:
        """Kill what is left in it, and remove it."""
        _write(self.path / "cgroup.kill", "1")
        until = time.monotonic() + REMOVAL_SECONDS
        while not _is_removed(self.path):
            if time.monotonic() > until:
                log.warning("the control group %s is still in use and remains", self.path)
                return
            time.sleep(LOOK_SECONDS)


class TrainerGroups:
    """Creation of trainers' groups inside a group that is theirs.

    Args:
        folder: the group that is divided.
        worker: the process id of the worker, after which they are named.
    """

    def __init__(self, folder: Path, worker: int) -> None:
        self.folder = folder
        self._worker = worker
        self._numbers = itertools.count(1)

    def create(self, limits: TrainerLimits) -> TrainerGroup:
        """Create the group of a trainer.

        Raises:
            OSError: the kernel refuses it.
        """
        path = self.folder / f"{PREFIX}{self._worker}-{next(self._numbers)}"
        path.mkdir()
        set_limits(path, limits)
        return TrainerGroup(path)

    def remove_abandoned(self) -> None:
        """Remove the empty groups of workers that were killed."""
        for path in self.folder.glob(f"{PREFIX}*-*"):
            worker = path.name.removeprefix(PREFIX).partition("-")[0]
            if not Path("/proc", worker).exists():
                _is_removed(path)


def set_limits(group: Path, limits: TrainerLimits) -> None:
    """Limit the memory and the number of a group's processes.

    Without swap, which would only slow down a run that needs too much. If memory runs out, the
    kernel ends all of them, not a child that the run may not miss.
    """
    _write(group / "memory.max", str(limits.memory_bytes))
    _write(group / "memory.swap.max", "0")
    _write(group / "memory.oom.group", "1")
    _write(group / "pids.max", str(limits.processes))


def trainer_groups(worker: int, delegated: Path | None = None) -> TrainerGroups | None:
    """Return the place of trainers' groups; None if no group is delegated.

    Args:
        worker: the process id of the worker.
        delegated: the group to divide; None for the one delegated to this process.
    """
    folder = delegated or delegated_group()
    if folder is None:
        return None
    groups = TrainerGroups(folder, worker)
    try:
        _divide(folder)
        groups.remove_abandoned()
        _try_out(groups)
    except (OSError, subprocess.CalledProcessError) as error:
        log.warning("trainers get no control groups in %s, although it is delegated: %s",
                    folder, error)  # fmt: skip
        return None
    return groups


def _divide(folder: Path) -> None:
    """Enable the controllers in the children of a group.

    Raises:
        OSError: the kernel refuses it.
    """
    wanted = [name for name in CONTROLLERS if name in controllers(folder)]
    for _ in range(MOVES):
        if controllers(folder, "cgroup.subtree_control").issuperset(wanted):
            return
        _move_processes(folder, folder / OTHERS)
        try:
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
        except OSError as error:
            if error.errno != errno.EBUSY:  # a process was started there meanwhile
                raise
    raise OSError(errno.EBUSY, "processes keep starting in it", str(folder))


def _move_processes(source: Path, destination: Path) -> None:
    destination.mkdir(exist_ok=True)
    for process in (source / MEMBERS).read_text().split():
        with suppress(ProcessLookupError):  # it ended meanwhile
            (destination / MEMBERS).write_text(process)


def _try_out(groups: TrainerGroups) -> None:
    """Raise an error if no process can be placed in a group."""
    group = groups.create(TrainerLimits(memory_bytes=2**30))
    try:
        enter = ["/bin/sh", "-c", 'echo 0 > "$1"', "sh", str(group.path / MEMBERS)]
        subprocess.run(enter, check=True, capture_output=True)
    finally:
        group.remove()


def _write(file: Path, text: str) -> None:
    if file.exists():  # by version and configuration of the kernel
        file.write_text(text)


def _is_removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
