"""Stand-ins for the engine that save, resume, fail or fall silent.

They are quick and need no torch.

What a job does follows from its number of steps, because a run is told nothing else of the test.
Loaded by the trainer, so nothing of the database is imported here.
"""

import errno
import hashlib
import os
import signal
import time
from pathlib import Path
from uuid import UUID

from tests.stand_ins import (
    ENVIRONMENT,
    Observer,
    checkpoint_of,
    evaluation_of,
    loss_at,
    replicates_of,
)

from adaptlab.errors import TrainingStopped
from adaptlab.runs.events import (
    CheckpointWritten,
    Evaluated,
    Progress,
    ReplicatesDecided,
    Started,
    TrainingSaved,
)
from adaptlab.specs.resolved import Resolved, write_resolved

STEP_SECONDS = 0.02
# Steps by which a run knows that it is to go wrong.
KILLS_ITS_TRAINER, KILLS_ITS_WORKER, HANGS = 13, 17, 19
HUNG_SECONDS = 600.0
FOLDER = "CHAOS_FOLDER"  # names the folder through which the test talks to runs
SIZE = "CHAOS_WEIGHTS"  # bytes of the weights that a run makes
DISK_IS_FULL, DISK_WAS_FULL = "disk-is-full", "disk-was-full"


def content_of(job_id: UUID | str, size: int = 32) -> bytes:
    """The weights of a job's stand-in: of any size, and of no other job."""
    pattern = hashlib.sha256(str(job_id).encode()).digest()
    return (pattern * (size // len(pattern) + 1))[:size]


def quick(
    job: Resolved,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """A run of one seed that takes a fiftieth of a second a step."""
    spec = write_resolved(job)
    total = spec.training.steps
    observer.emit(Started(environment=ENVIRONMENT, replicates=1))
    _fall_ill(total, scratch)
    for step in range(_first_step(resume), total + 1):
        _obey(observer, scratch, step - 1)
        time.sleep(STEP_SECONDS)  # how a run spends its time, not how it is synchronised
        observer.emit(loss_at(step))
        observer.emit(Progress(phase="training", step=step, total=total))
    observer.emit(ReplicatesDecided(replicates=replicates_of(spec)))
    observer.emit(Evaluated(evaluation=evaluation_of(spec)))
    observer.emit(CheckpointWritten(checkpoint=checkpoint_of(spec), path=_write_weights(scratch)))


def _first_step(resume: Path | None) -> int:
    return 1 if resume is None else int(resume.read_text().split()[1]) + 1


def _obey(observer: Observer, scratch: Path, done: int) -> None:
    command = observer.command()
    if command == "stop":
        raise TrainingStopped
    if command == "save" and done:
        state = scratch / f"state-{done}"
        state.write_text(f"{_attempt(scratch)[:36]} {done}")
        observer.emit(TrainingSaved(step=done, path=state))


def _fall_ill(total: int, scratch: Path) -> None:
    if total == KILLS_ITS_TRAINER:
        os.kill(os.getpid(), signal.SIGKILL)
    if total == KILLS_ITS_WORKER:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(HUNG_SECONDS)  # the kernel ends it with its worker
    is_first = _attempt(scratch)[37:].startswith("1-")
    if total == HANGS and is_first:
        time.sleep(HUNG_SECONDS)


def _attempt(scratch: Path) -> str:
    """The job and attempt that the run's folder is named after."""
    return scratch.name


def _write_weights(scratch: Path) -> Path:
    """Fill the disk by a patched write: half of the bytes, then ENOSPC."""
    size = int(os.environ[SIZE])
    content = content_of(_attempt(scratch)[:36], size)
    path, talk = scratch / "weights", Path(os.environ[FOLDER])
    with path.open("wb") as file:
        file.write(content[: size // 2])
        if (talk / DISK_IS_FULL).exists():
            (talk / DISK_WAS_FULL).touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        file.write(content[size // 2 :])
    return path
