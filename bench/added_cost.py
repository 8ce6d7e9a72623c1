"""The server's addition to a training's wall time, on the same cores."""

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from adaptlab_client import Client
from adaptlab_stack.stack import Stack
from bench.figures import Figure, Section, spread
from bench.own_stack import Document, own_stack
from bench.processor_time import Load, Processes, all_of, load_during, waited
from bench.timed_run import NOTES

SECONDS = float(os.environ.get("BENCH_COST_SECONDS", "60"))
ROUNDS = int(os.environ.get("BENCH_COST_ROUNDS", "4"))
IDLE_SECONDS = SECONDS / 3
# Less than the five seconds after which Postgres ends a connection that stands still in the midst
# of a unit of work.
SLICE_SECONDS = 4.0
# After a suspension: the trainer's events of that time are recorded then, which would count
# twice.
SETTLE_SECONDS = 1.0
SAVE_SECONDS = 30.0  # between two saved states, by default
CORES = 2
# Else the reaper begins its work after a minute, which is no cost of the job that runs then.
ARMED = {"ADAPTLAB_REAPER_ARM_SECONDS": "0"}
PROBE_STEPS, SHORT_STEPS = 200, 50
PATIENCE = 900.0  # seconds
SHORT = 6  # trainings by which is measured what is paid once
DATABASES = ("postgres", "valkey-server", "redis-server")  # names of processes
ROOT = Path(__file__).parents[1]
TITLE = "What the server costs a training"

Span = tuple[float, float]  # from when until when, by the machine's clock


@dataclass(frozen=True)
class Notes:
    """The notes of a run; see `timed_run`."""

    steps: Sequence[tuple[float, float]]
    saves: Sequence[Span]
    telling: float
    begin: float
    end: float

    def held_up(self, spans: Sequence[Span]) -> float:
        """Wall seconds per processor second, over all steps within the spans."""
        wall = processor = 0.0
        for (begin, before), (end, after) in pairwise(self.steps):
            is_within = any(first <= begin and end <= last for first, last in spans)
            if is_within and not any(begin <= one and other <= end for one, other in self.saves):
                wall, processor = wall + end - begin, processor + after - before
        return wall / processor

    def usual_step(self) -> float:
        """Return the median seconds between steps."""
        return statistics.median(end - begin for (begin, _), (end, _) in pairwise(self.steps))


@dataclass(frozen=True)
class Moment:
    """Seconds of a training, and the percent without a core for it."""

    span: Span
    waiting: float


@dataclass(frozen=True)
class Training:
    """One training as a job that nothing disturbed.

    Attributes:
        before: seconds from the request to the start of the run.
        after: seconds from the end of the run to the end of the job.
    """

    notes: Notes
    before: float
    after: float


@dataclass(frozen=True)
class Round:
    """One training as a job, with the server suspended every other moment.

    Attributes:
        slower: percent by which steps were slower while the server worked than in the next moment
            in which it was suspended, for every such moment.
        waiting: percent by which the trainer waited more for a core, likewise.
        saving: milliseconds of each saved state.
        telling: percent of the run spent on messages to the worker.
    """

    slower: Sequence[float]
    waiting: Sequence[float]
    saving: Sequence[float]
    telling: float


def measure() -> Section:
    """Suspend and resume the server in turn during one training, on two cores."""
    with _few_cores(), _server() as server:
        server.train(2)
        steps = round(SECONDS / server.train(PROBE_STEPS).notes.usual_step())
        short = [server.train(SHORT_STEPS, watched=True) for _ in range(SHORT)]
        idle = load_during(server.processes, lambda: time.sleep(IDLE_SECONDS))
        busy = load_during(server.processes, lambda: server.train(steps))
        watched = load_during(server.processes, lambda: server.train(steps // 2, watched=True))
        rounds = [_round(server, steps) for _ in range(ROUNDS)]
    return Section(
        TITLE,
        f"A pretraining of {steps:,} steps (one layer, width 96, three seeds), about "
        f"{SECONDS:.0f} seconds, runs {ROUNDS} times as a job of a warm stack on {CORES} cores "
        "without a client waiting. Meanwhile all server processes are stopped for "
        f"{SLICE_SECONDS:.0f} seconds, given {SETTLE_SECONDS:.0f} second to catch up and left "
        "running for as long, in turn. Two measures compare each stop with the time around it: the "
        "time for which the trainer's threads waited for a core, by the kernel's count (an upper "
        "bound on the delay), and the wall time of the steps per second of processor time, which "
        "varies more. One-time costs are measured separately and added. Effects on the processor's "
        "caches are not included. Intervals are those of the median, at 95 %. Processor time is "
        "that of all processes except the trainer, in percent of one core.",
        (*_held_up(rounds), *_once(short, rounds), *_processor_time(idle, busy, watched)),
    )


def _held_up(rounds: Sequence[Round]) -> Iterator[Figure]:
    for work, found in (
        (
            "trainer threads waiting for a core",
            [one for each in rounds for one in each.waiting],
        ),
        ("longer steps", [one for each in rounds for one in each.slower]),
    ):
        against = f"server stopped, {len(found)} times in turn"
        yield Figure(work, against, _percent(found), "")


def _once(short: Sequence[Training], rounds: Sequence[Round]) -> tuple[Figure, Figure]:
    """Return the fixed costs of a job, and its total cost."""
    before, after = [one.before for one in short], [one.after for one in short]
    saving = [one for each in rounds for one in each.saving] or [0.0]
    telling = statistics.median(each.telling for each in rounds)
    paid = statistics.median(before) + statistics.median(after)
    paid += SECONDS / SAVE_SECONDS * statistics.median(saving) / 1000
    fixed = 100 * paid / SECONDS + telling
    slower = [one for each in rounds for one in each.slower]
    waiting = [one for each in rounds for one in each.waiting]
    return (
        Figure(
            "one-time costs",
            "",
            f"before the run {spread(before, 's')}, after it {spread(after, 's')}, a saved state "
            f"{spread(saving, 'ms')}, messages to the worker {telling:.2f} % of the run",
            "",
        ),
        Figure(
            f"total, for a training of {SECONDS:.0f} seconds",
            "without a server",
            f"by the steps {_percent(slower, fixed)}; by the waits, an upper bound, "
            f"{_percent(waiting, fixed)}",
            "at most 1 % more",
        ),
    )


def _processor_time(idle: Load, busy: Load, watched: Load) -> tuple[Figure, Figure]:
    work = "processor time of the server, percent of one core"
    return (
        Figure(work, f"idle: {idle}", f"{busy}", ""),
        Figure(f"{work}, while a client waits", f"idle: {idle}", f"{watched}", ""),
    )


def _percent(values: Sequence[float], more: float = 0.0) -> str:
    """Return the median and its interval, with an offset."""
    low, high = _interval(values)
    middle = statistics.median(values)
    return f"{middle + more:+.2f} % ({low + more:+.2f} to {high + more:+.2f})"


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a 95 % interval of the median, by ranks."""
    out = max(0, math.floor((len(values) - 1.96 * math.sqrt(len(values))) / 2))
    ordered = sorted(values)
    return ordered[out], ordered[-1 - out]


@dataclass(frozen=True)
class Server:
    """A stack whose worker trains by `timed_run`, and a client of it."""

    client: Client
    processes: Processes
    notes: Path

    def train(self, steps: int, *, watched: bool = False) -> Training:
        """Run a training; with `watched`, poll the server for its end."""
        self.notes.unlink(missing_ok=True)
        asked_at = time.time()
        submitted = self.client.jobs.submit(_spec(steps))
        while not watched and not self.notes.exists():
            if time.time() > asked_at + PATIENCE:
                raise RuntimeError(f"The job {submitted.id} has not ended.")
            time.sleep(0.1)
        job = self.client.jobs.wait(submitted.id)
        if job.state != "succeeded" or job.finished_at is None:
            raise RuntimeError(f"The job {job.id} ended as {job.state}: {job.error}")
        notes = Notes(**json.loads(self.notes.read_text()))
        return Training(notes, notes.begin - asked_at, job.finished_at.timestamp() - notes.end)

    def moment(self) -> Moment:
        """Wait for some seconds."""
        (trainer,) = psutil.Process(self.processes["worker"]).children()
        begin, before = time.time(), waited(trainer.pid)
        time.sleep(SLICE_SECONDS)
        end, after = time.time(), waited(trainer.pid)
        return Moment((begin, end), 100 * (after - before) / (end - begin))

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Suspend all processes but the trainer during the block."""
        stopped = sorted(all_of(self.processes), key=lambda one: one.name() in DATABASES)
        try:
            for process in stopped:
                process.send_signal(signal.SIGSTOP)
            yield
        finally:
            for process in reversed(stopped):
                process.send_signal(signal.SIGCONT)


def _round(server: Server, steps: int) -> Round:
    """Run one training, with the server suspended every other moment."""
    working, still = list[Moment](), list[Moment]()
    ended = list[Training]()
    training = threading.Thread(target=lambda: ended.append(server.train(steps)))
    training.start()
    time.sleep(SLICE_SECONDS)
    working.append(server.moment())
    while training.is_alive():
        with server.standing_still():
            still.append(server.moment())
        time.sleep(SETTLE_SECONDS)
        working.append(server.moment())
    (notes,) = [one.notes for one in ended]
    around = [
        (before, between, after)
        for before, between, after in zip(working, still, working[1:], strict=False)
        if after.span[1] < notes.steps[-1][0]
    ]
    result = Round(
        [
            100 * (notes.held_up([before.span, after.span]) / notes.held_up([between.span]) - 1)
            for before, between, after in around
        ],
        [
            (before.waiting + after.waiting) / 2 - between.waiting
            for before, between, after in around
        ],
        [1000 * (end - begin) for begin, end in notes.saves],
        100 * notes.telling / (notes.end - notes.begin),
    )
    print(f"  {result}", flush=True)
    return result


def _spec(steps: int) -> Document:
    return {
        "kind": "pretrain",
        "name": f"bench-cost-{time.time_ns()}",
        "family": {"name": "minigpt", "width": 96},
        "task": {"name": "sort_ascending"},
        "training": {"steps": steps, "batch_size": 64},
        "seeds": 3,
        "evaluation": {"samples": 320},
    }


@contextmanager
def _server() -> Generator[Server]:
    with (
        own_stack(workers=0, environment=ARMED) as stack,
        tempfile.TemporaryDirectory(prefix="adaptlab-bench-") as folder,
        Client(stack.url, stack.token) as client,
    ):
        Path(folder).chmod(0o777)  # the trainer is another user
        notes = Path(folder) / "notes.json"
        with _worker(stack, Path(folder), notes) as pid:
            processes = {name: one.pid for name, one in stack.processes.items()}
            yield Server(client, {"up": stack.pid, **processes, "worker": pid}, notes)


@contextmanager
def _worker(stack: Stack, folder: Path, notes: Path) -> Generator[int]:
    """Start a worker like the stack's but for its runner; its process id."""
    environment = (
        os.environ
        | ARMED
        | {
            "PYTHONPATH": str(ROOT),
            NOTES: str(notes),
            "ADAPTLAB_TRAINER_ENVIRONMENT": NOTES,
            "ADAPTLAB_DATABASE_URL": stack.database_url,
            "ADAPTLAB_BROKER_URL": stack.broker_url,
            "ADAPTLAB_DATA_DIR": str(folder / "data"),
        }
    )
    command = [sys.executable, "-m", "adaptlab_worker", "worker"]
    with (folder / "worker.log").open("wb") as log:
        running = subprocess.Popen(
            [*command, "--runner", "bench.timed_run:run"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield running.pid
    finally:
        running.terminate()
        running.wait(timeout=30)


@contextmanager
def _few_cores() -> Iterator[None]:
    """Limit this process and its children to the cores of the figure."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[-CORES:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
