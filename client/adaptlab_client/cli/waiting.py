"""Waiting for jobs and studies, with progress, time limit and exit code."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from adaptlab_client.cli.exits import ExitCode
from adaptlab_client.cli.printing.job_tables import obstacles_of, print_job, print_jobs
from adaptlab_client.cli.printing.terminal import Output, complain, print_value, say

if TYPE_CHECKING:
    from adaptlab_answers.jobs import JobView
    from adaptlab_answers.studies import StudySummary, StudyView
    from adaptlab_client.client import Client
    from adaptlab_client.transport.connection import Identity

T = TypeVar("T")
TimeoutOption = Annotated[
    float | None, typer.Option(min=0, help="Maximum seconds to wait; after that, exit with 124.")
]
AnyOption = Annotated[
    bool, typer.Option("--any/--all", help="Wait for the first to end, or for all.")
]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Wait until it ends; exit codes as for `wait`.")
]


def wait_for(
    client: "Client",
    job_ids: "Sequence[Identity]",
    timeout: float | None,
    *,
    any_of: bool,
    output: Output,
    printed: bool,
) -> None:
    """Wait, print the ended jobs, and exit with 1 if one did not succeed.

    `printed` means that the id of the job is on stdout already.
    """
    from adaptlab_client.cli.printing.progress import bars  # loads rich, only needed here

    ended: list[JobView] = []
    wanted = list(dict.fromkeys(job_ids))
    with _going_on("jobs", wanted), _printing(ended, output, printed=printed), bars() as update:
        told = _obstacle_printer(update)
        for job in client.jobs.as_ended(wanted, timeout=timeout, on_progress=told):
            ended.append(job)
            if output is Output.JSONL:
                print_value(job, output)
            if any_of:
                break
    unsuccessful = [job for job in ended if not job.succeeded]
    for job in unsuccessful:
        complain(f"{job.id} {job.state}: {_why(job)}")
    if unsuccessful:
        raise typer.Exit(ExitCode.JOB_FAILED)


def show_new_job(
    client: "Client", job: "JobView", output: Output, *, wait: bool, timeout: float | None
) -> None:
    """Print a new job, or wait for it as `wait_for` does."""
    if not wait:
        print_job(job, output)
        return
    if output is Output.ID:
        print_value(job, output)  # before waiting, in case the script is stopped meanwhile
    wait_for(client, [job.id], timeout, any_of=False, output=output, printed=True)


def studies_as_ended(
    client: "Client", studies: "Sequence[Identity]", timeout: float | None
) -> "Iterator[StudyView]":
    """Yield the studies as they end; print job counts to stderr meanwhile."""
    with _going_on("studies", studies):
        yield from client.studies.as_ended(
            list(dict.fromkeys(studies)), timeout=timeout, on_progress=_count_printer()
        )


def followed(client: "Client", study: "Identity", timeout: float | None) -> "StudyView":
    """Wait for one study and return it."""
    (ended,) = studies_as_ended(client, [study], timeout)
    return ended


def leave_unless_succeeded(ended: "Sequence[StudyView]") -> None:
    """Exit with 1 if a job of the studies failed or was cancelled."""
    unsuccessful = [study for study in ended if not study.succeeded]
    for study in unsuccessful:
        complain(
            f"{study.name} is {study.state}. Re-run what failed with `adaptlab studies extend "
            f"{study.name}`."
        )
    if unsuccessful:
        raise typer.Exit(ExitCode.JOB_FAILED)


def counts(study: "StudySummary") -> str:
    """Return the number of jobs of a study in each state."""
    return ", ".join(f"{count} {state}" for state, count in study.jobs.items())


@contextmanager
def _going_on(noun: str, names: "Sequence[Identity]") -> Generator[None]:
    """On Ctrl-C, explain that the jobs go on, and exit with 130."""
    try:
        yield
    except KeyboardInterrupt:
        ids = " ".join(map(str, names))
        complain(
            f"adaptlab: stopped waiting; the {noun} go on. Wait again with `adaptlab {noun} "
            f"wait {ids}`, or cancel with `adaptlab {noun} cancel {ids}`."
        )
        raise typer.Exit(ExitCode.INTERRUPTED) from None


@contextmanager
def _printing(ended: "list[JobView]", output: Output, *, printed: bool) -> Generator[None]:
    """Print the ended jobs at the end, also after the time limit."""
    try:
        yield
    finally:
        if ended and output is not Output.JSONL and not (output is Output.ID and printed):
            print_jobs(ended, output)


def _obstacle_printer(update: "Callable[[JobView], None]") -> "Callable[[JobView], None]":
    """Return `update`, which also prints once why no live worker takes a job."""
    printed: set[str] = set()

    def updating(job: "JobView") -> None:
        update(job)
        for obstacle in obstacles_of(job):
            if obstacle not in printed:
                printed.add(obstacle)
                complain(f"warning: {obstacle}")

    return updating


def _count_printer() -> "Callable[[StudyView], None]":
    printed: dict[UUID, str] = {}

    def update(study: "StudyView") -> None:
        if printed.get(study.id) != counts(study):
            printed[study.id] = counts(study)
            say(f"{study.name}: {printed[study.id]}")

    return update


def _why(job: "JobView") -> str:
    return ": ".join(part for part in (job.reason, job.error) if part) or "no reason given"
