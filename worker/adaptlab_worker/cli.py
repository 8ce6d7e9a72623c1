"""The commands `adaptlab worker` and `adaptlab beat`."""

from pathlib import Path
from typing import Annotated

import typer

from adaptlab.loading import uncollected

SAVE_SECONDS = 20.0
"""Time for a run to save its state, where nobody waits for the worker's end."""

Slots = Annotated[
    int, typer.Option(min=1, max=64, help="Number of jobs that run at the same time.")
]
Once = Annotated[bool, typer.Option("--once", help="Take one job; the exit code is its outcome.")]
Drain = Annotated[bool, typer.Option("--drain", help="Exit when no job is left to take.")]
MaxJobs = Annotated[int | None, typer.Option(min=1, help="Exit after this many jobs.")]
IdleTimeout = Annotated[
    float | None,
    typer.Option(min=0, metavar="SECONDS", help="Exit after this time without work."),
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN",
        help=(
            "Take only jobs that should end by this time: auto (the end of the batch job), "
            "seconds from now, 23:30, or 2027-01-31T18:00."
        ),
    ),
]
SaveWithin = Annotated[
    float | None,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help=(
            "Time for a run to save its state after a signal. Default: 20, but 1.5 after SIGTERM "
            "or SIGINT for a worker that is woken through the broker."
        ),
    ),
]
Queue = Annotated[
    list[str] | None,
    typer.Option(
        "--queue", help="Queue to take jobs from, instead of ADAPTLAB_QUEUES. Repeatable."
    ),
]
ScratchFolder = Annotated[
    Path | None, typer.Option(help="Folder for the worker's files, instead of ADAPTLAB_DATA_DIR.")
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Work through the API of this server, without its database and broker."
    ),
]
Runner = Annotated[
    str | None,
    typer.Option(hidden=True, help="module:function to run instead of the engine, for tests."),
]


def worker(
    slots: Slots = 1,
    once: Once = False,
    drain: Drain = False,
    max_jobs: MaxJobs = None,
    idle_timeout: IdleTimeout = None,
    until: Until = None,
    save_within: SaveWithin = None,
    queue: Queue = None,
    scratch: ScratchFolder = None,
    server: Server = None,
    runner: Runner = None,
) -> None:
    """Run a worker, which claims jobs from its queues and runs them.

    Without options it serves until it is ended, woken through the broker. With any of --once,
    --drain, --max-jobs, --idle-timeout, --until, --scratch, --server and --queue it needs no
    broker, looks for work by itself, and suits batch jobs.

    A signal makes runs save their state and gives their jobs back. A worker without options takes
    SIGTERM and SIGINT, after which it exits within 4 seconds unless --save-within is given, and
    SIGUSR2, after which runs have 20 seconds. Other workers take SIGTERM, SIGINT, SIGUSR1 and
    SIGUSR2 (exit code 75: start me again), and a signal that comes 5 seconds later or more ends
    them at once.
    """
    options_given = (once, drain, max_jobs, idle_timeout is not None, until, queue, scratch, server)
    if not any(options_given):
        with uncollected():  # late: the command line starts quickly
            from adaptlab_worker.loop.processes import run_worker

        raise typer.Exit(run_worker(slots, runner, save_within))
    _check(once=once, drain=drain, slots=slots, max_jobs=max_jobs, idle_timeout=idle_timeout)
    with uncollected():  # late, as above
        from adaptlab_worker.errors import NoEndKnown
        from adaptlab_worker.loop.pull_loop import PullOptions, run_pull_worker

    options = PullOptions(
        slots=slots,
        once=once,
        max_jobs=max_jobs,
        idle_seconds=0.0 if drain else idle_timeout,
        until=until,
        save_seconds=SAVE_SECONDS if save_within is None else save_within,
        queues=tuple(queue or ()),
        scratch=scratch,
        server=server,
        runner=runner,
    )
    try:
        raise typer.Exit(run_pull_worker(options))
    except NoEndKnown as error:
        raise typer.BadParameter(str(error)) from error


def beat() -> None:
    """Run the scheduler of the workers' periodic duties; one is enough."""
    with uncollected():  # late: the command line must start quickly
        from adaptlab_worker.loop.processes import run_beat

    run_beat()


def _check(
    *, once: bool, drain: bool, slots: int, max_jobs: int | None, idle_timeout: float | None
) -> None:
    """Refuse options that contradict each other."""
    if once and (slots > 1 or max_jobs is not None):
        raise typer.BadParameter("--once takes one job. Leave out --slots and --max-jobs.")
    if drain and idle_timeout:
        raise typer.BadParameter(
            f"--drain does not wait. Leave it out to use --idle-timeout {idle_timeout:g}."
        )
