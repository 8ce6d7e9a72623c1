"""Progress bars for jobs and files, on stderr."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from adaptlab_client.cli.printing.fetches import fetch_stage
from adaptlab_client.cli.printing.terminal import console, is_quiet, is_terminal, one_line, say

if TYPE_CHECKING:
    from adaptlab_answers.jobs import JobView


@contextmanager
def bars() -> "Generator[Callable[[JobView], None]]":
    """Yield a function that shows a job's progress (its state in a pipe)."""
    if is_quiet() or not is_terminal(sys.stderr):
        yield _state_printer()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        yield _bar_mover(progress)


@contextmanager
def byte_bar(name: str) -> "Generator[Callable[[int, int | None], None]]":
    """Yield a function that shows the bytes transferred (nothing in a pipe)."""
    if is_quiet() or not is_terminal(sys.stderr):
        yield lambda done, total: None
        return
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(),
        TransferSpeedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        task = progress.add_task(one_line(name), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _bar_mover(progress: Progress) -> "Callable[[JobView], None]":
    bars_by_job: dict[UUID, TaskID] = {}

    def update(job: "JobView") -> None:
        text = one_line(f"{job.method or job.kind} {str(job.id)[:8]} {_stage(job)}")
        if job.id not in bars_by_job:
            bars_by_job[job.id] = progress.add_task(text, total=None)
        done, total = job.progress.parts
        if job.fetch is not None:
            done, total = job.fetch.bytes_done, job.fetch.bytes_total or 0
        progress.update(bars_by_job[job.id], description=text, completed=done, total=total or None)

    return update


def _state_printer() -> "Callable[[JobView], None]":
    states: dict[UUID, str] = {}

    def update(job: "JobView") -> None:
        if states.get(job.id) != (stage := _stage(job)):
            states[job.id] = stage
            say(f"{job.id} {stage}")

    return update


def _stage(job: "JobView") -> str:
    if job.fetch is not None:
        return fetch_stage(job.fetch)
    phase = job.progress.phase
    return job.state if phase in (None, "training") else phase.replace("_", " ")
