"""How much processor time the processes of a stack have taken, without the trainers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from adaptlab_stack.stack import Stack

Seconds = Mapping[str, float]  # by the name of a process


@dataclass(frozen=True)
class Load:
    """How much of one core each process took, in percent."""

    shares: Mapping[str, float]

    @property
    def total(self) -> float:
        """All of them together."""
        return sum(self.shares.values())

    def __str__(self) -> str:
        parts = (f"{name} {share:.2f}" for name, share in sorted(self.shares.items()))
        return f"{self.total:.2f} % ({', '.join(parts)})"


def load_during(stack: Stack, work: Callable[[], object]) -> Load:
    """What the server took of a core while `work` was done."""
    before, begin = _taken(stack), time.monotonic()
    work()
    after, seconds = _taken(stack), time.monotonic() - begin
    return Load({name: 100 * (after[name] - before[name]) / seconds for name in before})


def _taken(stack: Stack) -> Seconds:
    """Seconds of processor time so far.

    Of a worker only its own: its trainers are what would run without a server too.
    """
    return {
        name: _own(psutil.Process(process.pid), with_children=not name.startswith("worker"))
        for name, process in stack.processes.items()
    }


def _own(process: psutil.Process, *, with_children: bool) -> float:
    times = process.cpu_times()
    own = times.user + times.system
    if not with_children:
        return own
    # Connections of Postgres are processes; what those took that have ended is in the parent's.
    ended = times.children_user + times.children_system
    return own + ended + sum(_own(child, with_children=True) for child in process.children())
