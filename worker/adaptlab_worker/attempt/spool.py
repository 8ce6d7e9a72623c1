"""The spool: events on disk, first in first out, while the ledger is away."""

import logging
from io import FileIO
from pathlib import Path

from pydantic import TypeAdapter

from adaptlab.runs.events import Event
from adaptlab_worker.trainer.protocol import frame_of

LARGEST = 2**30  # bytes; beyond that the run has to wait

log = logging.getLogger(__name__)


class Spool:
    """A queue of events in one file, which is created for the first event.

    If the disk is full, further events are kept in memory and the spool counts as full.

    Args:
        path: the file, in an existing folder.
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
        """Return True if all events were taken out."""
        return self._read_at == self._end and not self._refused

    @property
    def is_full(self) -> bool:
        """Return True if the caller should append nothing more for now."""
        return self._end >= self._largest or bool(self._refused)

    def append(self, event: Event) -> None:
        """Append an event."""
        if self._refused:
            self._refused.append(event)
            return
        line = frame_of(event) + b"\n"
        try:
            self._write(line)
        except OSError as error:
            log.warning("results cannot be written to disk, the run waits: %s", error)
            self._refused.append(event)
        else:
            self._end += len(line)

    def take(self, most: int) -> list[Event]:
        """Take out at most `most` of the oldest events.

        With the last event the file is emptied.
        """
        taken: list[Event] = []
        if self._read_at < self._end:
            with self._path.open("rb") as file:
                file.seek(self._read_at)
                while len(taken) < most and self._read_at < self._end:
                    line = file.readline()
                    self._read_at += len(line)
                    taken.append(self._adapter.validate_json(line))
        if self._read_at == self._end:
            self._start_over()
            taken, self._refused = taken + self._refused, []
        return taken

    def close(self) -> None:
        """Discard the remaining events."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._read_at = self._end = 0
        self._refused = []

    def _write(self, line: bytes) -> None:
        # Unbuffered, so that a refused write is not retried when the file is closed.
        if self._file is None:
            self._file = self._path.open("wb", buffering=0)
        self._file.seek(self._end)
        if self._file.write(line) != len(line):
            raise OSError("The disk took only a part.")

    def _start_over(self) -> None:
        if self._file is not None and self._end:
            self._file.truncate(0)
        self._read_at = self._end = 0
