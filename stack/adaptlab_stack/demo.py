"""`adaptlab demo`: start everything, run a real study, show its results."""

import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from adaptlab.charts import attention_patterns, png
from adaptlab_client import Client, StudyView
from adaptlab_client.display.comparison_tables import StudyComparison
from adaptlab_client.display.progress_bars import ShowProgress, bars, steps
from adaptlab_stack import demo_study as study
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.errors import DemoFailed
from adaptlab_stack.signs_of_life import SILENCE_SECONDS, SignsOfLife
from adaptlab_stack.stack import Stack, stop
from adaptlab_stack.supervisor_requests import WORKER

UNCLAIMED = ("waiting", "queued")
LINES_OF_A_LOG = 5
PICTURE = "demo-attention.png"
SECONDS_BETWEEN_LINES = 15
MOST_STARTS = 3
"""Of the worker before it takes a job."""


def run_demo(*, data_dir: Path, port: int | None, exit_when_done: bool) -> None:
    """Start a stack, run the study and show its results.

    The server keeps running unless `exit_when_done`.

    Raises:
        StackError: the stack does not start, or a job does not succeed.
    """
    console = Console()
    console.print("adaptlab: which adaptation method works for my task at this budget, and why?\n")
    console.print("Starting Postgres, Valkey, the API, a worker and beat …")
    begin = time.monotonic()
    with demo_stack(data_dir, port, exit_when_done, line_printer(console)) as stack:
        console.print(f"Ready at {stack.url} after {time.monotonic() - begin:.1f} s.\n")
        with Client(stack.url, stack.token) as client:
            try:
                shown = _run(client, console, stack)
            except study.StudyFailed as error:
                raise DemoFailed(str(error)) from error
        print_conclusions(console, shown.comparison)
        seconds = time.monotonic() - begin
        console.print(f"\n{seconds:.0f} s on {study.machine(os.cpu_count() or 1)}.")
        places = {"picture": str(shown.picture), "study": f"{stack.url}/studies/{study.NAME}"}
        print_places(console, stack, places, exit_when_done)


@contextmanager
def demo_stack(
    data_dir: Path,
    port: int | None,
    exit_when_done: bool,
    report: Callable[[str], None],
    environment: Mapping[str, str | None] | None = None,
) -> "Generator[Stack]":
    """Yield the stack that already runs in the directory, or a new one.

    `environment` are changes to that of a new one; `report` takes what is awaited.
    """
    directory = DataDirectory(data_dir.resolve())
    pid = directory.holder()
    if pid is None:
        keep = not exit_when_done
        with Stack.start(
            data_dir, port=port, keep=keep, environment=environment, report=report
        ) as stack:
            yield stack
        return
    yield Stack.attach(directory, pid)
    if exit_when_done:
        stop(data_dir)


def _run(client: Client, console: Console, stack: Stack) -> "_Shown":
    run = study.begin(client)
    console.print(f"Study {run.name}: {progress_line(run.study)}")
    with progress(console) as show_progress:
        ended = study.finish(client, run, DemoProgress(show_progress, stack))
    jobs = study.jobs_by_method(client, ended)
    picture = stack.data_dir / PICTURE
    tokens = " ".join(str(digit) for digit in study.FIGURE_INPUT)
    chart = attention_patterns(
        tuple(study.patterns(client, jobs)), title=f"Attention for the input {tokens}"
    )
    picture.write_bytes(png(chart))
    return _Shown(run.comparison(), picture)


class _Shown(NamedTuple):
    """The results that the demo shows at the end of its study."""

    comparison: StudyComparison
    picture: Path


def line_printer(console: Console) -> Callable[[str], None]:
    """Return a function that prints a line as it is."""
    return partial(console.print, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress(console: Console) -> "Generator[ShowProgress]":
    """Show the study's progress: a bar in a terminal, otherwise lines."""
    if console.is_terminal:
        with bars("rich") as show_progress:
            yield show_progress
    else:
        yield Lines(line_printer(console))


class DemoProgress:
    """Shows progress, and requires that the worker lives until a job runs.

    Args:
        show: shows the study.
        stack: the stack whose worker has to take a job.
        clock: seconds.
    """

    def __init__(
        self,
        show: ShowProgress,
        stack: Stack,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._show = show
        self._stack = stack
        self._signs = SignsOfLife(DataDirectory(stack.data_dir).log(WORKER), clock)
        self._starts: set[int] = set()
        self._has_begun = False

    def __call__(self, view: StudyView) -> None:
        """Show the study.

        Raises:
            StudyFailed: no job has been claimed, and the worker is silent or keeps ending.
        """
        self._show(view)
        self._has_begun |= any(
            count for state, count in view.jobs.items() if state not in UNCLAIMED
        )
        if not self._has_begun and (reason := self._reason_to_give_up()):
            last = "\n".join(self._stack.log(WORKER).splitlines()[-LINES_OF_A_LOG:])
            raise study.StudyFailed(
                f"No worker has taken a job: it {reason}. The end of its log:\n{last}"
            )

    def _reason_to_give_up(self) -> str | None:
        process = self._stack.processes.get(WORKER)
        if process is None:
            return None
        self._starts.add(process.pid)
        if len(self._starts) > MOST_STARTS:
            return f"ended {MOST_STARTS} times"
        silence = self._signs.silence(process.pid)
        return f"was silent for {silence:.0f} s" if silence > SILENCE_SECONDS else None


class Lines:
    """Progress lines, whenever a job ends and every `SECONDS_BETWEEN_LINES`."""

    def __init__(
        self, show: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._clock = clock
        self._begin = self._last = clock()
        self._counts: Mapping[str, int] | None = None

    def __call__(self, view: StudyView) -> None:
        """Show the study if its jobs changed or a line is due."""
        now = self._clock()
        if view.jobs == self._counts and now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._counts, self._last = dict(view.jobs), now
        self._show(f"{now - self._begin:4.0f} s  {progress_line(view)}")


def progress_line(view: StudyView) -> str:
    """Return the steps done and to do, and the jobs by state."""
    done, total = steps(view)
    counts = ", ".join(f"{count} {state}" for state, count in view.jobs.items())
    return f"{done:,} of {total:,} steps; jobs: {counts}"


def print_conclusions(console: Console, comparison: StudyComparison) -> None:
    """Print the study's reports."""
    console.print()
    for line in study.conclusions(comparison):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    details = f"Details: adaptlab compare {comparison.study.name} --all-pairs"
    console.print(details, highlight=False)


def print_places(console: Console, stack: Stack, places: Mapping[str, str], stopping: bool) -> None:
    """Print where the results are, `places` first, and how to stop."""
    lines = {
        **places,
        "token": f"{stack.data_dir / 'token'}  (sign in with its content)",
    }
    for name, place in lines.items():
        console.print(f"  {name:<10} {place}", highlight=False, soft_wrap=True)
    if stopping:
        console.print("Stopping the server; its data is kept.")
    else:
        console.print(
            f'The server keeps running. Stop it with: adaptlab down --data-dir "{stack.data_dir}"\n'
            "A new shell needs:\n"
            f'  export PATH="{Path(sys.executable).parent}:$PATH"\n'
            f'  export ADAPTLAB_DATA_DIR="{stack.data_dir}"',
            highlight=False,
            soft_wrap=True,
        )
