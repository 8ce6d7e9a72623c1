"""The commands `adaptlab worker` and `adaptlab beat`."""

from typing import Annotated

import typer

Slots = Annotated[int, typer.Option(min=1, max=64, help="Jobs that run at the same time.")]
Runner = Annotated[
    str | None, typer.Option(hidden=True, help="module:function in the engine's place, for tests.")
]


def worker(slots: Slots = 1, runner: Runner = None) -> None:
    """Run a worker: it claims jobs from ADAPTLAB_QUEUES and trains them."""
    from adaptlab_worker.processes import run_worker  # late: the command line must start quickly

    raise typer.Exit(run_worker(slots, runner))


def beat() -> None:
    """Run the clock that reminds workers of their periodic duties; one is enough."""
    from adaptlab_worker.processes import run_beat  # late: the command line must start quickly

    run_beat()
