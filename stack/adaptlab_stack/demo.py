"""`adaptlab demo`: everything started, one real study run, its table and picture shown."""

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from adaptlab.charts import attention_patterns, png
from adaptlab.statistics import Interval
from adaptlab_client import Client, Job
from adaptlab_stack import demo_study as study
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.errors import DemoFailed
from adaptlab_stack.stack import Stack, stop

PICTURE = "demo-attention.png"


def run_demo(*, data_dir: Path, port: int | None, exit_when_done: bool) -> None:
    """Start a stack, run the study, show what was measured, and leave the server running.

    Raises:
        StackError: the stack does not start, or a job does not succeed.
    """
    console = Console()
    console.print("adaptlab: which adaptation method works for my task at this budget, and why?\n")
    console.print("Starting Postgres, Valkey, the API, a worker and beat …")
    begin = time.monotonic()
    with _stack(data_dir, port, exit_when_done) as stack:
        console.print(f"Ready at {stack.url} after {time.monotonic() - begin:.1f} s.\n")
        with Client(stack.url, stack.token) as client:
            try:
                rows, picture = _run(client, console, stack)
            except study.StudyFailed as error:
                raise DemoFailed(str(error)) from error
        console.print(_table(rows))
        for finding in study.findings(rows):
            console.print(f"  {finding}", highlight=False)
        seconds = time.monotonic() - begin
        console.print(f"\n{seconds:.0f} s on {study.machine(os.cpu_count() or 1)}.")
        _say_where(console, stack, picture, exit_when_done)


@contextmanager
def _stack(data_dir: Path, port: int | None, exit_when_done: bool) -> "Generator[Stack]":
    """The stack that runs in the directory already, or a new one."""
    directory = DataDirectory(data_dir.resolve())
    pid = directory.holder()
    if pid is None:
        with Stack.start(data_dir, port=port, keep=not exit_when_done) as stack:
            yield stack
        return
    yield Stack.attach(directory, pid)
    if exit_when_done:
        stop(data_dir)


def _run(client: Client, console: Console, stack: Stack) -> tuple[Sequence[study.Row], Path]:
    jobs = study.submit(client)
    with _bars(console, jobs) as show:
        ended = study.await_all(client, jobs, show)
    rows = tuple(study.table(client, ended))
    picture = stack.data_dir / PICTURE
    tokens = " ".join(str(digit) for digit in study.FIGURE_INPUT)
    chart = attention_patterns(
        tuple(study.patterns(client, ended)), title=f"Attention for the input {tokens}"
    )
    picture.write_bytes(png(chart))
    return rows, picture


@contextmanager
def _bars(console: Console, jobs: Mapping[str, Job]) -> "Generator[_Bars]":
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]:<10}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield _Bars(progress, jobs)


class _Bars:
    """One progress bar a job, moved by what the server says."""

    def __init__(self, progress: Progress, jobs: Mapping[str, Job]) -> None:
        self._progress = progress
        self._tasks = {
            job.id: progress.add_task(label, total=job.progress.total, start=False, state=job.state)
            for label, job in jobs.items()
        }

    def __call__(self, job: Job) -> None:
        task = self._tasks[job.id]
        if job.state != "waiting" and job.state != "queued":
            self._progress.start_task(task)
        done = job.progress.total if job.succeeded else job.progress.step
        self._progress.update(task, completed=done, state=job.state)
        if job.terminal:
            self._progress.stop_task(task)


def _table(rows: Sequence[study.Row]) -> Table:
    title = f"Sorting 10 digits: {study.SEEDS} seeds, 3,200 test items each"
    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("trainable", justify="right", no_wrap=True)
    for task in study.TASKS:
        table.add_column(f"{task.removeprefix('sort_')} %", justify="right", no_wrap=True)
    table.add_column("moved", justify="right", no_wrap=True)
    for row in rows:
        moved = "" if row.deviation is None else _deviation(row.deviation)
        scores = [_percent(row.accuracies[task]) for task in study.TASKS]
        table.add_row(row.label, f"{row.trainable_parameters:,}", *scores, moved)
    table.caption = (
        "Items with all ten digits right, and a 95 % interval over seeds. Moved: the\n"
        "largest deviation of layer 0's relative attention from the base model's."
    )
    return table


def _percent(interval: Interval) -> str:
    mean, low, high = (100 * share for share in (interval.mean, interval.low, interval.high))
    return f"{mean:.1f} ({low:.1f}–{high:.1f})"


def _deviation(value: float) -> str:
    return f"{value:.2f}" if value == 0 or value >= 0.01 else f"{value:.0e}"


def _say_where(console: Console, stack: Stack, picture: Path, stopping: bool) -> None:
    lines = {
        "picture": picture,
        "dashboard": f"{stack.url}/",
        "API": f"{stack.url}/openapi.json  (and openapi.yaml)",
        "token": f"{stack.data_dir / 'token'}  (sign in with its content)",
        "logs": stack.data_dir / "logs",
    }
    for name, place in lines.items():
        console.print(f"  {name:<10} {place}", highlight=False, soft_wrap=True)
    if stopping:
        console.print("\nStopping the server; its data stay.")
    else:
        console.print(
            f'\nThe server runs on. To stop it: adaptlab down --data-dir "{stack.data_dir}"',
            soft_wrap=True,
        )
