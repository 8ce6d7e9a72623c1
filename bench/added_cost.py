"""What the server adds to the wall time of a training, on the same two cores."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from adaptlab.resolve import resolve
from adaptlab.spec import PretrainSpec, ResolvedSpec
from adaptlab_client import Client
from adaptlab_client.answers import Job
from bench.bare_run import environment
from bench.figures import Figure, Section, spread
from bench.own_stack import Document, own_stack
from bench.processor_time import Load, load_during

SECONDS = float(os.environ.get("BENCH_COST_SECONDS", "60"))
ROUNDS = int(os.environ.get("BENCH_COST_ROUNDS", "3"))
IDLE_SECONDS = SECONDS / 2
CORES = 2
# Else the reaper begins its work after a minute, which is no cost of the job that runs then.
ARMED = {"ADAPTLAB_REAPER_ARM_SECONDS": "0"}
PROBE_STEPS = 100
TITLE = "What the server costs a training"


@dataclass(frozen=True)
class Served:
    """A training as a job: how long it took, and what the server took of a core, idle and then."""

    seconds: float
    idle: Load
    busy: Load

    @property
    def added(self) -> float:
        """Percent of one core that the job cost the server."""
        return self.busy.total - self.idle.total


def measure() -> Section:
    """Run one training with and without the server, in turn, on two cores."""
    with _few_cores():
        spec = _spec(_steps_for(SECONDS))
        pairs = [(_bare(spec), _served(spec)) for _ in range(ROUNDS)]
    served = [pair[1] for pair in pairs]
    return Section(
        TITLE,
        f"One pretraining of {spec['training']['steps']:,} steps (one layer, width 96, three "
        "seeds), in turn in a bare process, which loads and warms up what a trainer does and then "
        "calls the engine alone, and as a job of a warm, idle stack. With the server the time is "
        "from the creation of the job to its end by the database's clock, with all that the "
        "server does for it: claiming, heartbeats, curves, saved states, weights. Everything runs "
        f"on the same {CORES} cores, Postgres and the API too. Processor time is that of all "
        "processes but the trainer, while a client waits for the job, against as much of an idle "
        "stack before it; it varies far less than wall time does on a machine with other work.",
        (_wall_time([pair[0] for pair in pairs], served), _processor_time(served)),
    )


def _wall_time(bare: Sequence[float], served: Sequence[Served]) -> Figure:
    with_it = [one.seconds for one in served]
    added = [100 * (w / without - 1) for without, w in zip(bare, with_it, strict=True)]
    return Figure(
        f"a training of {SECONDS:.0f} seconds, wall time with the server",
        f"bare process: {spread(bare, 's')}",
        f"{spread(with_it, 's')}: {statistics.median(added):+.1f} % "
        f"({min(added):+.1f} to {max(added):+.1f})",
        "at most 1 % more",
    )


def _processor_time(served: Sequence[Served]) -> Figure:
    median = sorted(served, key=lambda one: one.added)[len(served) // 2]
    return Figure(
        "processor time of the server meanwhile, of one core",
        f"idle: {median.idle}",
        f"{median.busy}: {median.added:+.1f} points",
        "at most 1 of wall time",
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


def _served(document: Document) -> Served:
    """As a job."""
    with own_stack(environment=ARMED) as stack, Client(stack.url, stack.token) as client:
        warm = _spec(2) | {"name": "bench-warm"}
        client.jobs.wait(client.jobs.submit(warm).id)
        idle = load_during(stack, lambda: time.sleep(IDLE_SECONDS))
        done: list[Job] = []
        busy = load_during(
            stack, lambda: done.append(client.jobs.wait(client.jobs.submit(document).id))
        )
    (job,) = done
    if job.state != "succeeded" or job.created_at is None or job.finished_at is None:
        raise RuntimeError(f"The job {job.id} ended as {job.state}: {job.error}")
    seconds = (job.finished_at - job.created_at).total_seconds()
    print(f"  with the server: {seconds:.2f} s; {busy} of a core, idle {idle}", flush=True)
    return Served(seconds, idle, busy)


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
