"""A watch over memory that a trainer and its children share.

`RLIMIT_DATA` does not count it. Only trainers with a GPU can have any (`system_calls`), because
CUDA needs it.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

LOOK_SECONDS = 1.0
GROUP = 2  # of the fields of `stat` that follow the command, in parentheses
PROC = Path("/proc")


class SharedMemoryWatch:
    """A thread that ends a trainer whose shared memory exceeds its limit.

    Args:
        group: the trainer's process group, whose first process it is.
        most_bytes: the limit on shared memory, with the trainer's own written memory.
        end: ends the trainer.

    Attributes:
        excess: the bytes at which the trainer was ended; None if it was not.
    """

    def __init__(self, group: int, most_bytes: int, end: Callable[[], None]) -> None:
        self._group = group
        self._most_bytes = most_bytes
        self._end = end
        self._closed = threading.Event()
        self.excess: int | None = None
        self._thread = threading.Thread(target=self._look, name="shared memory", daemon=True)

    def start(self) -> None:
        """Start to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop; a look under way takes milliseconds."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            size = shared_bytes(self._group)
            if size and size + _bytes_of(PROC / str(self._group), "RssAnon") > self._most_bytes:
                self.excess = size
                self._end()
                return


def shared_bytes(group: int) -> int:
    """Return the bytes of memory that the processes of a group share."""
    return sum(_bytes_of(process, "RssShmem") for process in _members(group))


def _members(group: int) -> Iterator[Path]:
    for process in PROC.glob("[0-9]*"):
        if _group_of(process) == group:
            yield process


def _group_of(process: Path) -> int | None:
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        return int(fields[GROUP])
    except (OSError, IndexError, ValueError):  # it ended meanwhile
        return None


def _bytes_of(process: Path, member: str) -> int:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(member)), 0)
