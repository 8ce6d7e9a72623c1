"""Whether the kernel ended a process for want of memory, which its status alone does not say."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class MemoryKills:
    """The kernel's count of processes that it killed for want of memory.

    That of the control group in which this process and its children are, else that of the whole
    machine; where neither can be read, no kill is taken for one of these.

    Args:
        root: what holds `proc` and `sys`; for tests.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._known = self._count()

    def forget_earlier(self) -> None:
        """What was killed until now was nothing of ours."""
        with self._lock:
            self._known = self._count()

    def is_there_another(self) -> bool:
        """Whether one more was killed; each is told once."""
        with self._lock:
            is_new = self._count() > self._known
            self._known += is_new
            return is_new

    def _count(self) -> int:
        """What the first file says that can be read and has a count; 0 if none has."""
        for path in self._files():
            try:
                found = _COUNT.search(path.read_text())
            except OSError:
                continue
            if found:
                return int(found.group(1))
        return 0

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
        """The controllers of each hierarchy that counts memory, none for the unified one."""
        try:
            lines = (self._root / "proc/self/cgroup").read_text().splitlines()
        except OSError:
            return
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if controllers == "" or "memory" in controllers.split(","):
                yield controllers.split(","), path.lstrip("/")
