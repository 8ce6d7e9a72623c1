"""The progress of one job in scripts and notebooks, on stderr."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from adaptlab_answers.jobs import JobView


@contextmanager
def job_progress() -> Generator[Callable[[JobView], None]]:
    """Yield a function that shows a job: one line in a terminal, else changes."""
    terminal = sys.stderr.isatty()
    printed = ""

    def show(job: JobView) -> None:
        nonlocal printed
        line = progress_text(job, with_steps=terminal)
        if line == printed:
            return
        sys.stderr.write(f"\r{line.ljust(len(printed))}" if terminal else f"{line}\n")
        sys.stderr.flush()
        printed = line

    try:
        yield show
    finally:
        if terminal and printed:
            sys.stderr.write("\n")


def progress_text(job: JobView, *, with_steps: bool) -> str:
    """Return the state of a job, with its place in the queue or its steps."""
    name = f"{job.method or job.kind} {str(job.id)[:8]}: {job.state}"
    if job.queue.position is not None:
        return f"{name}, position {job.queue.position} in the queue {job.queue.name}"
    if job.state != "running" or not with_steps:
        return name
    left = job.progress.eta_seconds
    time = "" if left is None else f", about {left:.0f} s left"
    return f"{name}, step {job.progress.step:,} of {job.progress.total:,}{time}"
