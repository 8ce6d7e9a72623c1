"""Progress bars for studies in scripts and notebooks, on stderr."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from adaptlab_answers.studies import StudyView

Bars = Literal["auto", "rich", "tqdm", "none"]
ShowProgress = Callable[[StudyView], None]


@contextmanager
def bars(kind: Bars = "auto") -> Generator[ShowProgress]:
    """Yield a function that shows the progress of a study.

    `auto` prefers rich in a terminal and tqdm in a notebook, and shows nothing elsewhere. If only
    one of the two is installed, it is used.
    """
    match _chosen(kind):
        case "rich":
            with _rich() as show_progress:
                yield show_progress
        case "tqdm":
            with _tqdm() as show_progress:
                yield show_progress
        case _:
            yield lambda _: None


def steps(study: StudyView) -> tuple[int, int]:
    """Return the training steps of all jobs: those done, and the total."""
    every_job = [
        *(base.job for base in study.base_models),
        *(job for cell in study.cells for job in cell.jobs),
        *(check.job for check in study.checks),
    ]
    jobs = {job.id: job for job in every_job}.values()
    done = sum(job.total_steps if job.terminal else job.step for job in jobs)
    return done, sum(job.total_steps for job in jobs)


def description(study: StudyView) -> str:
    """Return the study's name and job counts in one line."""
    counts = ", ".join(f"{count} {state}" for state, count in study.jobs.items())
    return f"{study.name}: {counts}"


def _chosen(kind: Bars) -> Bars:
    if kind != "auto":
        return kind
    first: Bars = "rich"
    second: Bars = "tqdm"
    if _in_notebook():
        first, second = second, first
    elif not sys.stderr.isatty():
        return "none"
    if find_spec(first):
        return first
    return second if find_spec(second) else "none"


def _in_notebook() -> bool:
    """Return True in a Jupyter kernel; does not load IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextmanager
def _rich() -> Generator[ShowProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None)

        def show_progress(study: StudyView) -> None:
            done, total = steps(study)
            text = description(study)
            progress.update(bar, description=text, completed=done, total=total or None)

        yield show_progress


@contextmanager
def _tqdm() -> Generator[ShowProgress]:
    tqdm: Any = import_module("tqdm").tqdm  # Any: tqdm is optional
    with tqdm(unit="step", file=sys.stderr, leave=False) as bar:

        def show_progress(study: StudyView) -> None:
            bar.n, bar.total = steps(study)
            bar.set_description_str(description(study))

        yield show_progress
