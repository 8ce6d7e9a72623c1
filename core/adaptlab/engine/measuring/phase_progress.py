"""Progress of what a run does after its training."""

from collections.abc import Callable

from adaptlab.engine.observer import Observer
from adaptlab.runs.events import Progress
from adaptlab.runs.phases import Phase

Advance = Callable[[int], object]
"""Is told how many more parts of a phase are done."""


class PhaseProgress:
    """Progress of one phase of a run, reported from its start.

    Args:
        observer: receives the reports.
        phase: the phase.
        total: its parts, which take similarly long; answers of one replicate to one item, say.
    """

    def __init__(self, observer: Observer, phase: Phase, total: int) -> None:
        self._observer = observer
        self._phase: Phase = phase
        self._total = total
        self._done = 0
        self.reach(0)

    def advance(self, parts: int) -> None:
        """Report that more parts are done."""
        self.reach(self._done + parts)

    def reach(self, done: int) -> None:
        """Report how many parts are done by now, at most all of them."""
        self._done = min(max(done, self._done), self._total)
        self._observer.emit(Progress(phase=self._phase, step=self._done, total=self._total))


def untold(_parts: int) -> None:
    """Tell nobody."""
