"""The queue: a backlog of empty jobs, and the writing of curves."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_client import Client
from adaptlab_db.session import close, session_factory
from adaptlab_services.lifecycle.doorbell import ring
from adaptlab_stack.stack import Stack
from bench.figures import Figure, Section
from bench.ingesting import points_a_second
from bench.own_stack import TINY, in_queue, make_base, own_stack

JOBS = int(os.environ.get("BENCH_BACKLOG", "20000"))
WORKERS = 4
QUEUE = "backlog"
LOOK_SECONDS = 1.0
REPORT_EVERY = 15.0  # seconds
GIVE_UP = 1800.0
START_SECONDS = 120.0
ROUNDS = 5
ROOT = Path(__file__).parents[1]

# Copies of a row with all its columns; only those that must differ are named.
COPY_JOBS = """
    INSERT INTO jobs SELECT (jsonb_populate_record(j, jsonb_build_object(
        'id', gen_random_uuid(), 'created_at', j.created_at + n * interval '1 microsecond'
    ))).* FROM jobs j, generate_series(1, :copies) n WHERE j.id = :original
"""
COPY_EVENTS = """
    INSERT INTO job_events SELECT (jsonb_populate_record(e, jsonb_build_object('job_id', j.id))).*
    FROM job_events e, jobs j WHERE e.job_id = :original AND j.queue = :queue AND j.id <> :original
"""
ENDED = "SELECT count(*) FROM jobs WHERE queue = :queue AND finished_at IS NOT NULL"
ENDS = """
    SELECT extract(epoch FROM finished_at - min(started_at) OVER ()) FROM jobs
    WHERE queue = :queue AND state = 'succeeded' AND attempt = 1 ORDER BY finished_at
"""
PARTS = 10


@dataclass(frozen=True)
class Drained:
    """End times of jobs that succeeded at once, in seconds from the start.

    `submitted` counts all jobs, so that missing ones show.
    """

    submitted: int
    ends: Sequence[float]

    @property
    def rate(self) -> float:
        """Return jobs per second, over all."""
        return len(self.ends) / self.ends[-1]

    @property
    def slowdown(self) -> float:
        """Return the last tenth's time per job relative to the first's."""
        tenth = len(self.ends) // PARTS
        first = self.ends[tenth - 1]
        return (self.ends[-1] - self.ends[-1 - tenth]) / first


def measure() -> Section:
    """Drain a backlog, then write curves."""
    with own_stack() as stack, Client(stack.url, stack.token) as client:
        make_base(client)
        drained = _drain(stack, client)
        rows = [points_a_second(stack, client) for _ in range(ROUNDS)]
    lost = drained.submitted - len(drained.ends)
    return Section(
        "The queue",
        f"{drained.submitted:,} jobs are queued before any worker starts. {WORKERS} worker "
        "processes with one slot each claim them, pass them to a trainer process and record their "
        "end, as for any job; only the engine is replaced by one that returns at once. "
        f"{lost} were lost or took more than one attempt. Curve points pass from the trainer's "
        "pipe through the worker's recorder into the table, 24 replicates per step.",
        (
            Figure(
                f"{drained.submitted:,} empty jobs, {WORKERS} workers, jobs a second",
                "",
                f"{drained.rate:.0f}",
                "60",
            ),
            Figure(
                "the last tenth of them",
                f"first tenth: {drained.ends[len(drained.ends) // PARTS - 1]:.1f} s",
                f"{drained.slowdown:.2f} times as long",
                "at most 1.2 times",
            ),
            Figure("jobs lost or run twice", "", str(lost), "0"),
            Figure(
                "curve points written by the worker, rows a second",
                "",
                f"{statistics.median(rows):,.0f} ({min(rows):,.0f} to {max(rows):,.0f})",
                "15,000",
            ),
        ),
    )


def _drain(stack: Stack, client: Client) -> Drained:
    sessions = session_factory(stack.database_url)
    try:
        with _workers(stack) as logs:
            _fill(sessions, client)
            ring(stack.broker_url, [QUEUE])
            _await_end(sessions, logs)
        with sessions() as session:
            ends = [float(seconds) for seconds in session.scalars(text(ENDS), {"queue": QUEUE})]
        return Drained(JOBS, ends)
    finally:
        close(sessions)


def _fill(sessions: sessionmaker[Session], client: Client) -> None:
    """Submit one job that nobody can claim yet, and copy it."""
    original = client.jobs.submit(in_queue(TINY, "not-yet")).id
    parameters = {"original": original, "queue": QUEUE, "copies": JOBS - 1}
    with sessions.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        session.execute(text("UPDATE jobs SET queue = :queue WHERE id = :original"), parameters)
        session.execute(text(COPY_JOBS), parameters)
        session.execute(text(COPY_EVENTS), parameters)
        session.execute(text("ANALYZE jobs"))
    print(f"  {JOBS} jobs wait", flush=True)


def _await_end(sessions: sessionmaker[Session], logs: Path) -> None:
    started = reported_at = time.monotonic()
    while True:
        time.sleep(LOOK_SECONDS)
        with sessions() as session:
            done = session.execute(text(ENDED), {"queue": QUEUE}).scalar_one()
        now = time.monotonic()
        if now - reported_at > REPORT_EVERY:
            reported_at = now
            print(f"  {done} of {JOBS} have ended after {now - started:.0f} s", flush=True)
        if done == JOBS:
            return
        if now - started > GIVE_UP:
            raise RuntimeError(f"{JOBS - done} jobs have not ended:\n{logs.read_text()[-3000:]}")


@contextmanager
def _workers(stack: Stack) -> Generator[Path]:
    """Run workers with an empty engine during the block; yield their log."""
    argv = (sys.executable, "-m", "adaptlab_worker", "worker", "--runner", "bench.no_work:run")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "ADAPTLAB_DATABASE_URL": stack.database_url,
        "ADAPTLAB_BROKER_URL": stack.broker_url,
        "ADAPTLAB_QUEUES": QUEUE,
    }
    with tempfile.TemporaryDirectory(prefix="adaptlab-bench-") as folder:
        log = Path(folder) / "workers.log"
        with log.open("wb") as output:
            running = [
                subprocess.Popen(
                    argv,
                    env=environment | {"ADAPTLAB_DATA_DIR": f"{folder}/{number}"},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                for number in range(WORKERS)
            ]
        try:
            _await_claims(log)
            yield log
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(timeout=30)


def _await_claims(log: Path) -> None:
    """Wait until every worker claims, with a warm trainer."""
    deadline = time.monotonic() + START_SECONDS
    while log.read_text().count(f" serves {QUEUE}") < WORKERS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"The workers do not claim:\n{log.read_text()[-3000:]}")
        time.sleep(LOOK_SECONDS)
