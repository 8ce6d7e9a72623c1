"""What the server adds to the wall time of a training, on the same two cores."""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter

from adaptlab.resolve import resolve
from adaptlab.spec import PretrainSpec, ResolvedSpec
from adaptlab_client import Client
from bench.bare_run import environment
from bench.figures import Figure, Section, spread
from bench.own_stack import Document, own_stack

SECONDS = float(os.environ.get("BENCH_COST_SECONDS", "60"))
ROUNDS = 3
CORES = 2
PROBE_STEPS = 100
TITLE = "What the server costs a training"


def measure() -> Section:
    """Run one training with and without the server, in turn, on two cores."""
    with _few_cores():
        spec = _spec(_steps_for(SECONDS))
        pairs = [(_bare(spec), _served(spec)) for _ in range(ROUNDS)]
    bare, served = ([pair[way] for pair in pairs] for way in (0, 1))
    added = [100 * (with_it / without - 1) for without, with_it in pairs]
    return Section(
        TITLE,
        f"One pretraining of {spec['training']['steps']:,} steps (one layer, width 96, three "
        "seeds), in turn in a bare process, which loads and warms up what a trainer does and then "
        "calls the engine alone, and as a job of a warm, idle stack. With the server the time is "
        "from the creation of the job to its end by the database's clock, with all that the "
        "server does for it: claiming, heartbeats, curves, saved states, weights. Everything runs "
        f"on the same {CORES} cores, Postgres and the API too.",
        (
            Figure(
                f"a training of {SECONDS:.0f} seconds, wall time with the server",
                f"bare process: {spread(bare, 's')}",
                f"{spread(served, 's')}: {statistics.median(added):+.1f} % "
                f"({min(added):+.1f} to {max(added):+.1f})",
                "at most 1 % more",
            ),
        ),
    )


def _spec(steps: int) -> Document:
    return {
        "kind": "pretrain",
        "name": "bench-cost",
        "family": {"name": "minigpt", "width": 96},
        "task": {"name": "sort_ascending"},
        "training": {"steps": steps, "batch_size": 64},
        "seeds": 3,
        "evaluation": {"samples": 320},
    }


def _steps_for(seconds: float) -> int:
    """So many steps take about so long without the server."""
    few, many = (_bare(_spec(steps)) for steps in (PROBE_STEPS, 5 * PROBE_STEPS))
    step = (many - few) / (4 * PROBE_STEPS)
    return max(PROBE_STEPS, round((seconds - few) / step) + PROBE_STEPS)


def _bare(document: Document) -> float:
    """Seconds in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spec.json"
        file.write_text(_resolved(document).model_dump_json())
        command = [sys.executable, "-m", "bench.bare_run", str(file)]
        ran = subprocess.run(command, env=environment(), check=True, stdout=subprocess.PIPE)
    seconds = float(ran.stdout)
    print(f"  without the server: {seconds:.2f} s", flush=True)
    return seconds


def _served(document: Document) -> float:
    """Seconds as a job."""
    with own_stack() as stack, Client(stack.url, stack.token) as client:
        warm = _spec(2) | {"name": "bench-warm"}
        client.jobs.wait(client.jobs.submit(warm).id)
        job = client.jobs.wait(client.jobs.submit(document).id)
    if job.state != "succeeded" or job.created_at is None or job.finished_at is None:
        raise RuntimeError(f"The job {job.id} ended as {job.state}: {job.error}")
    seconds = (job.finished_at - job.created_at).total_seconds()
    print(f"  with the server: {seconds:.2f} s", flush=True)
    return seconds


def _resolved(document: Document) -> ResolvedSpec:
    adapter: TypeAdapter[PretrainSpec] = TypeAdapter(PretrainSpec)
    return resolve(adapter.validate_python(document), None)


@contextmanager
def _few_cores() -> Iterator[None]:
    """This process, and all that it starts meanwhile, on as many cores as the figure is about."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[-CORES:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
