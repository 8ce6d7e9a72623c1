"""Processor time of a server's processes, without the trainers."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

Processes = Mapping[str, int]
"""Process ids by name; those of `ALONE` count without children."""
ALONE = ("up", "worker")


@dataclass(frozen=True)
class Load:
    """The share of one core that each process took, in percent."""

    shares: Mapping[str, float]

    @property
    def total(self) -> float:
        """Return the sum over all processes."""
        return sum(self.shares.values())

    def __str__(self) -> str:
        parts = (f"{name} {share:.2f}" for name, share in sorted(self.shares.items()))
        return f"{self.total:.2f} % ({', '.join(parts)})"


def load_during(processes: Processes, work: Callable[[], object]) -> Load:
    """Measure the server's share of a core during `work`."""
    before, begin = _taken(processes), time.monotonic()
    work()
    after, seconds = _taken(processes), time.monotonic() - begin
    return Load({name: 100 * (after[name] - before[name]) / seconds for name in before})


def all_of(processes: Processes) -> Iterator[psutil.Process]:
    """Return every present process of the server, parents first."""
    for name, pid in processes.items():
        parent = psutil.Process(pid)
        yield parent
        if name not in ALONE:
            yield from parent.children(recursive=True)


def waited(pid: int) -> float:
    """Return seconds that threads were ready without a core (Linux)."""
    waits = (file.read_text().split()[1] for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(nanoseconds) for nanoseconds in waits) / 1e9


def _taken(processes: Processes) -> Mapping[str, float]:
    """Return the seconds of processor time so far."""
    return {
        name: _own(psutil.Process(pid), with_children=name not in ALONE)
        for name, pid in processes.items()
    }


def _own(process: psutil.Process, *, with_children: bool) -> float:
    times = process.cpu_times()
    own = times.user + times.system
    if not with_children:
        return own
    # Connections of Postgres are processes; the time of ended ones counts for the parent.
    ended = times.children_user + times.children_system
    return own + ended + sum(_own(child, with_children=True) for child in process.children())
