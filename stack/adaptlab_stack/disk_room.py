"""Free space on the data directory's disk, which servers wait for."""

import shutil
from collections.abc import Callable
from pathlib import Path

from adaptlab.errors import is_disk_full

LEAST_BYTES = 32 * 2**20
"""Required free space: Postgres needs two WAL files of 16 MiB each to run."""

Report = Callable[[str], None]
Measure = Callable[[Path], int]


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user can still write on the folder's disk."""
    return shutil.disk_usage(folder).free


class DiskRoom:
    """A check of free space that reports when it runs out and when it returns.

    Args:
        folder: a folder on the checked disk.
        report: takes one line.
        measure: returns the free bytes.
    """

    def __init__(self, folder: Path, report: Report, measure: Measure = free_bytes) -> None:
        self._folder = folder
        self._report = report
        self._measure = measure
        self.is_short = False

    def look(self) -> bool:
        """Return True if there is too little space; report a change."""
        free = self._measure(self._folder)
        was_short, self.is_short = self.is_short, free < LEAST_BYTES
        if self.is_short and not was_short:
            self._report(
                f"only {free // 2**20} MiB are free on the disk of {self._folder}; free up "
                f"space until {LEAST_BYTES // 2**20} MiB are free, and the server resumes by "
                "itself"
            )
        elif was_short and not self.is_short:
            self._report(f"the disk of {self._folder} has enough free space again")
        return self.is_short


def whatever_the_disk(report: Report) -> Report:
    """Return a report that drops its line if the disk it writes to is full."""

    def tell(line: str) -> None:
        try:
            report(line)
        except OSError as error:
            if not is_disk_full(error):
                raise

    return tell
