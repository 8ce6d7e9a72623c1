"""Room on the disk of the data directory, which servers wait for instead of giving up."""

import shutil
from collections.abc import Callable
from pathlib import Path

from adaptlab.errors import is_disk_full

LEAST_BYTES = 32 * 2**20
"""Postgres needs two files of its log, of 16 MiB each, to start and to go on."""

Report = Callable[[str], None]
Measure = Callable[[Path], int]


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write on the disk of a folder."""
    return shutil.disk_usage(folder).free


class DiskRoom:
    """Looks whether there is room, and reports when there is none and when there is again.

    Args:
        folder: on the disk that is looked at.
        report: takes one line.
        measure: returns the free bytes.
    """

    def __init__(self, folder: Path, report: Report, measure: Measure = free_bytes) -> None:
        self._folder = folder
        self._report = report
        self._measure = measure
        self.is_short = False

    def look(self) -> bool:
        """Return True if there is too little room; report when that has changed."""
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
    """Return a report that loses its line where that goes to a disk without room."""

    def tell(line: str) -> None:
        try:
            report(line)
        except OSError as error:
            if not is_disk_full(error):
                raise

    return tell
