"""Curve points on their way from the trainer's pipe into the table."""

import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from adaptlab.runs.events import MetricPoint, Metrics
from adaptlab_client import Client
from adaptlab_db.session import close, session_factory
from adaptlab_services.leases.leases import Claim, DatabaseLedger
from adaptlab_stack.stack import Stack
from adaptlab_worker.attempt.recorder import Recorder
from adaptlab_worker.trainer.protocol import MessageReader, frame_of
from bench.own_stack import TINY, in_queue

QUEUE = "by-hand"
REPLICATES = 24
POINTS = 48_000
LEASE_SECONDS = 3600.0  # nobody renews it
PATIENCE = 300.0


@contextmanager
def held_job(stack: Stack, client: Client) -> Generator[tuple[DatabaseLedger, Claim]]:
    """Return a running job whose worker is this process."""
    client.jobs.submit(in_queue(TINY, QUEUE))
    sessions = session_factory(stack.database_url)
    try:
        ledger = DatabaseLedger(sessions, lease_seconds=LEASE_SECONDS)
        claim = ledger.claim(ledger.register_worker("bench", 1, [QUEUE]), [QUEUE])
        assert claim is not None
        yield ledger, claim
        ledger.finish(claim)
    finally:
        close(sessions)


def points_of_step(step: int, replicates: int = REPLICATES) -> Metrics:
    """Return every replicate's training loss after a step, as an event."""
    return Metrics(
        points=tuple(
            MetricPoint(replicate=replicate, name="train_loss", step=step, value=1 / (step + 1))
            for replicate in range(replicates)
        )
    )


def points_a_second(stack: Stack, client: Client) -> float:
    """Read the frames of one run, record them, and wait for the commit."""
    frames = [frame_of(points_of_step(step)) for step in range(POINTS // REPLICATES)]
    with held_job(stack, client) as (ledger, claim), tempfile.TemporaryDirectory() as scratch:
        recorder = Recorder(ledger, claim, Path(scratch))
        recorder.start()
        reader = MessageReader()
        started = time.perf_counter()
        for frame in frames:
            message = reader.read(frame)
            assert isinstance(message, Metrics)
            recorder.put(message)
        recorder.close()
        assert recorder.join(PATIENCE)
        seconds = time.perf_counter() - started
    assert not recorder.is_lost
    assert recorder.failure is None
    return POINTS / seconds
