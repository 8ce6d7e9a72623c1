"""The server: from create to the first training step, and the memory of its processes."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil

from adaptlab_client import Client
from adaptlab_stack.stack import Stack
from bench.figures import Figure, Section, spread

JOBS = 25
REQUESTS = 200
TINY = {
    "kind": "adapt",
    "base_model": "bench",
    "task": {"name": "sort_descending", "length": 4, "alphabet": 4},
    "method": "soft_prompt",
    "budget": 32,
    "training": {"steps": 2, "batch_size": 4},
    "evaluation": {"samples": 8},
}
BASE = {
    "kind": "pretrain",
    "name": "bench",
    "family": {"name": "minigpt", "width": 16},
    "task": {"name": "sort_ascending", "length": 4, "alphabet": 4},
    "training": {"steps": 2, "batch_size": 4},
    "evaluation": {"samples": 8},
}


def measure() -> Section:
    """Start a stack of its own, on a fresh data directory, and measure it."""
    with _stack() as stack, Client(stack.url, stack.token) as client:
        client.jobs.wait(client.jobs.submit(BASE).id)
        overheads = [_overhead(client) for _ in range(JOBS)]
        for _ in range(REQUESTS):
            list(client.jobs.list(page_size=50))
        memory = {name: _resident(process.pid) for name, process in stack.processes.items()}
    overheads.sort()
    return Section(
        "The server",
        f"A stack of its own with one worker on one machine; {JOBS} tiny jobs one after the "
        f"other. Memory is what the process holds after them and {REQUESTS} list requests.",
        (
            Figure(
                "create a job to its first training step, idle warm worker",
                "the server's own clock",
                f"{spread(overheads, 'ms')}, 9 of 10 under {overheads[int(0.9 * JOBS)]:.0f} ms",
                "under 300 ms",
            ),
            Figure("API, resident", "", f"{memory['api']:.0f} MB", "under 150 MB"),
            Figure("idle worker's parent, resident", "", f"{memory['worker']:.0f} MB", "120 MB"),
        ),
    )


def _overhead(client: Client) -> float:
    """Milliseconds between the row of a job and its first step, both by the database's clock."""
    job = client.jobs.wait(client.jobs.submit(TINY).id)
    attempts = client.jobs.attempts(job.id)
    first_step = attempts[-1].first_step_at
    if first_step is None or job.created_at is None:
        raise RuntimeError(f"The job {job.id} ended as {job.state} without a first step.")
    _settle(client)
    return (_moment(first_step) - job.created_at).total_seconds() * 1000


def _settle(client: Client) -> None:
    """Wait until the worker has nothing left to write for the last job."""
    while any(not job.terminal for job in client.jobs.list(page_size=5)):
        time.sleep(0.02)


def _moment(value: datetime | str) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _resident(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 2**20


@contextmanager
def _stack() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="adaptlab-bench-") as folder:
        Path(folder).chmod(0o755)
        with Stack.start(Path(folder) / "data") as stack:
            yield stack


if __name__ == "__main__":
    for figure in measure().figures:
        print(f"{figure.work}: {figure.result} (asked for: {figure.target})")
