"""Events on disk, first in first out: what a run reports while nobody can be told."""

import logging
from io import FileIO
from pathlib import Path

from pydantic import TypeAdapter

from adaptlab.measurements.results import Event
from adaptlab_worker.protocol import frame_of

LARGEST = 2**30  # bytes; beyond them the run has to wait

log = logging.getLogger(__name__)


class Spool:
    """A queue of events in one file, which is made when the first one comes.

    Where the disk takes no more, the event in hand is kept in memory and the spool counts as full.

    Args:
        path: the file; its folder is there.
        largest: the bytes beyond which the spool counts as full.
    """

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        self._path = path
        self._largest = largest
        self._adapter: TypeAdapter[Event] = TypeAdapter(Event)
        self._file: FileIO | None = None
        self._refused: list[Event] = []  # by the disk
        self._read_at = 0
        self._end = 0

    @property
    def is_empty(self) -> bool:
        """Whether everything was taken out."""
        return self._read_at == self._end and not self._refused

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be put in for now."""
        return self._end >= self._largest or bool(self._refused)

    def append(self, event: Event) -> None:
        """Put an event in."""
        if self._refused:
            self._refused.append(event)
            return
        line = frame_of(event) + b"\n"
        try:
            self._write(line)
        except OSError as error:
            log.warning("results cannot be kept on disk, the run waits: %s", error)
            self._refused.append(event)
        else:
            self._end += len(line)

    def take(self, most: int) -> list[Event]:
        """Take out the oldest events, at most so many; the file is emptied with its last one."""
        taken: list[Event] = []
        if self._read_at < self._end:
            with self._path.open("rb") as file:
                file.seek(self._read_at)
                while len(taken) < most and self._read_at < self._end:
                    line = file.readline()
                    self._read_at += len(line)
                    taken.append(self._adapter.validate_json(line))
        if self._read_at == self._end:
            self._start_anew()
            taken, self._refused = taken + self._refused, []
        return taken

    def close(self) -> None:
        """Forget what is left."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._read_at = self._end = 0
        self._refused = []

    def _write(self, line: bytes) -> None:
        # Unbuffered, so that what the disk refused is not tried again behind our back.
        if self._file is None:
            self._file = self._path.open("wb", buffering=0)
        self._file.seek(self._end)
        if self._file.write(line) != len(line):
            raise OSError("The disk took only a part.")

    def _start_anew(self) -> None:
        if self._file is not None and self._end:
            self._file.truncate(0)
        self._read_at = self._end = 0
