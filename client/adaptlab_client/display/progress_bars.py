"""Bars for a study that a script or a notebook waits for, with rich or tqdm, on stderr."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from adaptlab_answers.studies import StudyView

Bars = Literal["auto", "rich", "tqdm", "none"]
Tell = Callable[[StudyView], None]


@contextmanager
def bars(kind: Bars = "auto") -> Generator[Tell]:
    """Give a function that shows how far a study is.

    `auto` takes rich in a terminal and tqdm in a notebook, the other one where only that is
    installed, and shows nothing where nobody would see it.
    """
    match _chosen(kind):
        case "rich":
            with _rich() as tell:
                yield tell
        case "tqdm":
            with _tqdm() as tell:
                yield tell
        case _:
            yield lambda _: None


def steps(study: StudyView) -> tuple[int, int]:
    """The training steps of all jobs that are done, and that there are."""
    found = [
        *(base.job for base in study.base_models),
        *(job for cell in study.cells for job in cell.jobs),
        *(check.job for check in study.checks),
    ]
    jobs = {job.id: job for job in found}.values()
    done = sum(job.total_steps if job.terminal else job.step for job in jobs)
    return done, sum(job.total_steps for job in jobs)


def told(study: StudyView) -> str:
    """Name and counts in one line."""
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
    """Whether a Jupyter kernel runs this; looked up without loading IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextmanager
def _rich() -> Generator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None)

        def tell(study: StudyView) -> None:
            done, total = steps(study)
            progress.update(bar, description=told(study), completed=done, total=total or None)

        yield tell


@contextmanager
def _tqdm() -> Generator[Tell]:
    tqdm: Any = import_module("tqdm").tqdm  # Any: it need not be installed
    with tqdm(unit="step", file=sys.stderr, leave=False) as bar:

        def tell(study: StudyView) -> None:
            bar.n, bar.total = steps(study)
            bar.set_description_str(told(study))

        yield tell
