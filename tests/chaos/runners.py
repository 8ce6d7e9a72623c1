"""Stand-ins for the engine: quick, without torch, that save, go on, fall ill or fall silent.

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

from adaptlab.adaptation import AdapterFile
from adaptlab.errors import TrainingStopped
from adaptlab.results import (
    Checkpoint,
    CheckpointWritten,
    Environment,
    Evaluated,
    Evaluation,
    Event,
    MetricPoint,
    Metrics,
    Progress,
    ReplicateResult,
    ReplicatesDecided,
    Started,
    TrainingSaved,
)
from adaptlab.spec import ResolvedSpec

LOSS = "train_loss"
STEP_SECONDS = 0.02
# Steps by which a run knows that it is to go wrong.
KILLS_ITS_TRAINER, KILLS_ITS_WORKER, HANGS = 13, 17, 19
HUNG_SECONDS = 600.0
FOLDER = "CHAOS_FOLDER"  # names the folder through which the test talks to runs
SIZE = "CHAOS_WEIGHTS"  # bytes of the weights that a run makes
DISK_IS_FULL, DISK_WAS_FULL = "disk-is-full", "disk-was-full"


def content_of(job_id: UUID | str, size: int = 32) -> bytes:
    """The weights that a stand-in trains for a job: known beforehand, of any size, of no other."""
    pattern = hashlib.sha256(str(job_id).encode()).digest()
    return (pattern * (size // len(pattern) + 1))[:size]


class Observer:
    """What the trainer gives a run; here for its form."""

    def emit(self, event: Event) -> None: ...
    def command(self) -> str: ...  # pyright: ignore[reportReturnType] - a form without content


def quick(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    folder: Path | None = None,
    adapters: tuple[AdapterFile, ...] = (),
    **_: object,
) -> None:
    """A run of one seed that takes a fiftieth of a second a step."""
    total = spec.training.steps
    observer.emit(Started(environment=_environment(), replicates=1))
    _fall_ill(total, scratch)
    for step in range(_first_step(resume), total + 1):
        _obey(observer, scratch, step - 1)
        time.sleep(STEP_SECONDS)  # how a run spends its time, not how it is synchronised
        observer.emit(Metrics(points=(MetricPoint(replicate=0, name=LOSS, step=step, value=0.5),)))
        observer.emit(Progress(phase="training", step=step, total=total))
    observer.emit(ReplicatesDecided(replicates=(_replicate(spec),)))
    observer.emit(Evaluated(evaluation=_evaluation(spec)))
    observer.emit(CheckpointWritten(checkpoint=_checkpoint(), path=_write_weights(scratch)))


def _first_step(resume: Path | None) -> int:
    return 1 if resume is None else int(resume.read_text().split()[1]) + 1


def _obey(observer: Observer, scratch: Path, done: int) -> None:
    command = observer.command()
    if command == "stop":
        raise TrainingStopped
    if command == "save" and done:
        state = scratch / f"state-{done}"
        state.write_text(f"{scratch.name[:36]} {done}")
        observer.emit(TrainingSaved(step=done, path=state))


def _fall_ill(total: int, scratch: Path) -> None:
    if total == KILLS_ITS_TRAINER:
        os.kill(os.getpid(), signal.SIGKILL)
    if total == KILLS_ITS_WORKER:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(HUNG_SECONDS)  # the kernel ends it with its worker
    is_first = scratch.name[37:].startswith("1-")  # the folder is named by job and attempt
    if total == HANGS and is_first:
        time.sleep(HUNG_SECONDS)


def _write_weights(scratch: Path) -> Path:
    """The disk is full by a patched write: half of the bytes arrive, then ENOSPC is raised."""
    size = int(os.environ[SIZE])
    content = content_of(scratch.name[:36], size)
    path, talk = scratch / "weights", Path(os.environ[FOLDER])
    with path.open("wb") as file:
        file.write(content[: size // 2])
        if (talk / DISK_IS_FULL).exists():
            (talk / DISK_WAS_FULL).touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        file.write(content[size // 2 :])
    return path


def _environment() -> Environment:
    return Environment(
        device="cpu",
        precision="float32",
        compiled=False,
        threads=1,
        torch_version="none",
        code_version="0",
        python_version="3",
        platform="test",
    )


def _replicate(spec: ResolvedSpec) -> ReplicateResult:
    return ReplicateResult(
        replicate=0,
        seed=spec.seeds[0],
        trial=0,
        learning_rate=0.01,
        weight_decay=0.0,
        initial_scale=1.0,
        status="completed",
        selected=True,
        final_loss=0.5,
        validation_accuracy=None,
        steps=spec.training.steps,
    )


def _evaluation(spec: ResolvedSpec) -> Evaluation:
    return Evaluation(
        replicate=0,
        seed=spec.seeds[0],
        task=spec.evaluation_tasks[0],
        split="test",
        correct=5,
        total=8,
        outcomes="f8",
    )


def _checkpoint() -> Checkpoint:
    return Checkpoint(replicate=0, seed=0, kind="adapter", parameters=2, tensors={"a": (2,)})
