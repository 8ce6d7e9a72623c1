"""Large files through the API: uploads, downloads and memory."""

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psutil
from sqlalchemy import insert

from adaptlab_client import Client
from adaptlab_db.session import close, session_factory
from adaptlab_db.tables import CheckpointRow
from adaptlab_stack.stack import Stack
from bench.figures import Figure, Section, spread
from bench.server import BASE

MEBIBYTE = 2**20
SIZE = 256 * MEBIBYTE
ROUNDS = 3
LOOK_SECONDS = 0.01


def measure() -> Section:
    """Start a stack on a fresh data directory; upload and fetch files."""
    with _stack() as stack, Client(stack.url, stack.token) as client:
        job = client.jobs.wait(client.jobs.submit(BASE).id)
        warm = _round(stack, client, str(job.id), 16 * MEBIBYTE)
        assert all(rate > 0 for rate, _ in warm)
        rounds = [_round(stack, client, str(job.id), SIZE) for _ in range(ROUNDS)]
    up, down = ([one[way][0] for one in rounds] for way in (0, 1))
    grown = [one[way][1] for one in rounds for way in (0, 1)]
    return Section(
        "Large files through the API",
        f"{SIZE // MEBIBYTE} MiB of random bytes, {ROUNDS} times, with the Python client on the "
        "same machine and an embedded, durable Postgres as the store. An upload is chunks of 8 MiB "
        "and completing, which reads everything again; a download is the content of a checkpoint, "
        "verified by digest. Growth is the API's peak memory during a transfer minus its memory "
        "before.",
        (
            Figure("upload", "", spread(up, "MiB/s"), "80 MiB/s"),
            Figure("download", "", spread(down, "MiB/s"), "80 MiB/s"),
            Figure("growth of the API", "", f"{max(grown):.0f} MiB at most", "32 MiB"),
        ),
    )


def _round(stack: Stack, client: Client, job: str, size: int) -> tuple[tuple[float, float], ...]:
    """Upload and download; return MiB per second and the API's growth."""
    api = psutil.Process(stack.processes["api"].pid)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        with source.open("wb") as file:
            for _ in range(size // MEBIBYTE):
                file.write(os.urandom(MEBIBYTE))
        up = _timed(api, size, lambda: client.uploads.send(source))
        (upload,) = [one for one in client.uploads.list() if one.size_bytes == size]
        checkpoint = _as_checkpoint(stack.database_url, job, upload.sha256)
        client.uploads.delete(upload.id)
        down = _timed(api, size, lambda: client.checkpoints.download(checkpoint, target))
        with target.open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == upload.sha256
    return up, down


def _timed(api: psutil.Process, size: int, work: Callable[[], object]) -> tuple[float, float]:
    before = _resident(api)
    with _most(api) as most:
        begun = time.perf_counter()
        work()
        seconds = time.perf_counter() - begun
    return size / MEBIBYTE / seconds, (max(most) - before) / MEBIBYTE


@contextmanager
def _most(process: psutil.Process) -> Iterator[list[int]]:
    """Sample the memory of a process during the block."""
    seen, ended = [_resident(process)], threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            seen.append(_resident(process))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _resident(process: psutil.Process) -> int:
    return process.memory_info().rss


def _as_checkpoint(database_url: str, job: str, sha256: str) -> int:
    """Register content as a job's checkpoint, so that a route serves it."""
    row = {
        "job_id": UUID(job),
        "attempt": 1,
        "replicate": 0,
        "seed": 0,
        "kind": f"bench-{sha256[:12]}",
        "artifact_sha256": sha256,
        "parameters": 1,
        "tensors": {},
    }
    sessions = session_factory(database_url)
    with sessions.begin() as session:
        checkpoint = session.scalars(
            insert(CheckpointRow).values(row).returning(CheckpointRow.id)
        ).one()
    close(sessions)
    return checkpoint


@contextmanager
def _stack() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="adaptlab-bench-") as folder:
        Path(folder).chmod(0o755)
        with Stack.start(Path(folder) / "data") as stack:
            yield stack


if __name__ == "__main__":
    for figure in measure().figures:
        print(f"{figure.work}: {figure.result} (asked for: {figure.target})")
