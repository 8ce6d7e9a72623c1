"""Free space on a worker's disk for another run."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

LEAST_SHARE = 0.05  # of a disk
MOST_ASKED = 2**30  # bytes; on a large disk a twentieth is more than any run needs

Measure = Callable[[Path], tuple[int, int, int]]  # as `shutil.disk_usage`: total, used, free


class Room:
    """The free space on the disk of one folder.

    Args:
        folder: the folder of the runs' files.
        least: the bytes that must be free for a job to be taken; None for a twentieth of the disk,
            but no more than one GiB.
        measure: returns total, used and free bytes of a disk.
    """

    def __init__(
        self, folder: Path, least: int | None = None, measure: Measure = shutil.disk_usage
    ) -> None:
        self._folder = folder
        self._least = least
        self._measure = measure

    def shortage(self, *without: Path) -> str | None:
        """Describe the shortage; None if there is room.

        `without` are folders on this disk to count as already removed.
        """
        try:
            tempfile.TemporaryFile(dir=self._folder).close()
        except OSError as error:  # out of inodes, over a quota, read-only …
            return f"The worker cannot write to its disk: {error.strerror}."
        total, _, free = self._measure(self._folder)
        least = min(LEAST_SHARE * total, MOST_ASKED) if self._least is None else self._least
        if free + sum(map(_held_by, without)) >= least:
            return None
        return (
            f"The worker's disk has {free / 2**20:.0f} MiB free and needs {least / 2**20:.0f} "
            "MiB to take a job. Free some space, or lower ADAPTLAB_SCRATCH_FREE_BYTES."
        )


def _held_by(folder: Path) -> int:
    """Return the bytes that removing a folder frees.

    Files that are linked elsewhere stay.
    """
    held = 0
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue  # removed meanwhile
        held += status.st_blocks * 512 if status.st_nlink == 1 else 0
    return held
