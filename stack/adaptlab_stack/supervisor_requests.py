"""Requests to a running supervisor: `adaptlab drain` and `reload`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from adaptlab_stack.data_directory import DataDirectory, Endpoints, StackState
from adaptlab_stack.errors import StackError
from adaptlab_stack.supervisor import Supervisor
from adaptlab_stack.waiting import DRAIN_SIGNAL, RELOAD_SIGNAL, SignalWaiting

WORKER = "worker"
"""Name of the first worker process, and how the names of the others begin."""


@dataclass(slots=True)
class Requests:
    """Serves requests, which come as signals, and publishes what came of them.

    Attributes:
        directory: where the state is published.
        endpoints: addresses that are published with it.
        waiting: receives the signals.
        reload: restarts the processes with the present settings; raises `StackError`.
    """

    directory: DataDirectory
    endpoints: Endpoints
    waiting: SignalWaiting
    reload: Callable[[Supervisor], None]
    _served: int = 0
    _problem: str | None = None
    _running: Mapping[str, int] = field(default_factory=dict[str, int])

    def publish(self, running: Mapping[str, int]) -> None:
        """Write the state of the stack, with these processes."""
        self._running = running
        self.directory.write_state(StackState(self.endpoints, running, self._served, self._problem))

    def serve(self, supervisor: Supervisor, report: Callable[[str], None]) -> None:
        """Do what was requested since the last call.

        Raises:
            StopRequested: a stop signal came meanwhile.
        """
        if self.waiting.take(DRAIN_SIGNAL):
            report("draining: workers save their runs and end")
            supervisor.retire([name for name in supervisor.processes if is_worker(name)])
            self._done(None)
            report("drained: no worker runs")
        if self.waiting.take(RELOAD_SIGNAL):
            report("reloading: processes restart one after the other")
            try:
                self.reload(supervisor)
            except StackError as error:
                report(f"not reloaded: {error}")
                self._done(str(error))
            else:
                self._done(None)
                report("reloaded")

    def _done(self, problem: str | None) -> None:
        self._served, self._problem = self._served + 1, problem
        self.publish(self._running)


def is_worker(name: str) -> bool:
    """Return True for the names of worker processes."""
    return name == WORKER or name.startswith(f"{WORKER}-")
