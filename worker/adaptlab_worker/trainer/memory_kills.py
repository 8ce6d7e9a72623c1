"""Detection of processes that the kernel killed because memory ran out."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def kills_in(path: Path) -> int | None:
    """Return the count of memory kills in a file of the kernel.

    None if it cannot be read or has none.
    """
    try:
        match = _COUNT.search(path.read_text())
    except OSError:
        return None
    return int(match.group(1)) if match else None


class MemoryKills:
    """The kernel's count of processes killed because memory ran out.

    It is the count of this process's control group, else of the whole machine. If neither can be
    read, no kill is attributed to memory.

    Args:
        root: the folder that contains `proc` and `sys`; for tests.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._known = self._count()

    def forget_earlier(self) -> None:
        """Ignore all kills so far: none was of this worker's run."""
        with self._lock:
            self._known = self._count()

    def is_there_another(self) -> bool:
        """Return True if there was another kill; each is reported once."""
        with self._lock:
            is_new = self._count() > self._known
            self._known += is_new
            return is_new

    def _count(self) -> int:
        """Return the count in the first readable file that has one; else 0."""
        counts = map(kills_in, self._files())
        return next((count for count in counts if count is not None), 0)

    def _files(self) -> Iterator[Path]:
        groups = self._root / "sys/fs/cgroup"
        for controllers, path in self._groups():
            place, name = (
                (groups / "memory", "memory.oom_control")
                if "memory" in controllers
                else (groups, "memory.events")
            )
            yield place / path / name
            yield place / name  # in a container, which sees its own group as the root
        yield self._root / "proc/vmstat"

    def _groups(self) -> Iterator[tuple[list[str], str]]:
        """Yield controllers and path of each hierarchy that accounts for memory."""
        try:
            lines = (self._root / "proc/self/cgroup").read_text().splitlines()
        except OSError:
            return
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if controllers == "" or "memory" in controllers.split(","):
                yield controllers.split(","), path.lstrip("/")
