"""Stand-ins for the engine: quick, without torch, and told by files what to do.

The folder RUNNER_CONTROL holds the files: a run writes what it reached there and waits for what a
test puts there. What they are given besides is for the engine only.
"""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from adaptlab.errors import InvalidSpec, Problem, TrainingDiverged, TrainingStopped
from adaptlab.results import (
    AttentionCaptured,
    AttentionMap,
    AttentionSummary,
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
)
from adaptlab.spec import ResolvedSpec

LOSS = "train_loss"
DEADLINE = 60.0


class Observer(Protocol):
    def emit(self, event: Event) -> None: ...
    def command(self) -> str: ...


def complete(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """A run that reports everything that the engine reports."""
    _start(spec, observer)
    for step in range(1, spec.training.steps + 1):
        _step(spec, observer, step)
    _report(spec, bases, scratch, observer)


def held(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Writes its first step and then waits for `go`."""
    _start(spec, observer)
    _step(spec, observer, 1)
    _wait_for("go", lambda: observer.command() == "stop")
    complete(spec, bases, scratch, observer)
    _note("done", "yes")


def stubborn(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Does not listen to a stop, and has a child that would outlive it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    _note("child", str(child.pid))
    _start(spec, observer)
    _step(spec, observer, 1)
    _wait_for("go", lambda: False)


def hung(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Gets stuck after its first step, alive and deaf."""
    _start(spec, observer)
    _step(spec, observer, 1)
    _wait_for("go", lambda: False)


def killed_once(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Is killed at its first step, the first time."""
    _start(spec, observer)
    _step(spec, observer, 1)
    if _note("killed", "yes"):
        os.kill(os.getpid(), signal.SIGKILL)
    complete(spec, bases, scratch, observer)


def killed(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Is killed every time."""
    _start(spec, observer)
    os.kill(os.getpid(), signal.SIGKILL)


def broken(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Fails for no reason of the user's."""
    raise RuntimeError("a bug at heart")


def invalid(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Finds the user's fault late."""
    raise InvalidSpec(Problem(pointer="/task", code="wrong", detail="not like this"))


def diverging(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Keeps its curve and gives up."""
    _start(spec, observer)
    _step(spec, observer, 1, None)
    raise TrainingDiverged("every replicate diverged at step 1")


def hungry(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Cannot get memory, in the words that torch has for it on a CPU."""
    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")


def outside(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Claims that a file elsewhere is its checkpoint."""
    _start(spec, observer)
    observer.emit(_checkpoint(Path("/etc/hostname")))


def environment(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    **_: object,
) -> None:
    """Tells the names of its environment variables."""
    _note("environment", "\n".join(os.environ))
    complete(spec, bases, scratch, observer)


def folder(
    spec: ResolvedSpec,
    bases: tuple[Path, ...],
    scratch: Path,
    observer: Observer,
    resume: Path | None = None,
    *,
    folder: Path | None = None,
    **_: object,
) -> None:
    """Tells which model folder it is given, and what it could know of the roots besides."""
    _start(spec, observer)
    _note("folder", f"{folder}\n{os.environ.get('ADAPTLAB_MODEL_ROOTS', '')}")


def _start(spec: ResolvedSpec, observer: Observer) -> None:
    _note(f"pid-{os.getpid()}", "")
    told = Environment(
        device="cpu",
        precision="float32",
        compiled=False,
        threads=1,
        torch_version="none",
        code_version="0",
        python_version="3",
        platform="test",
    )
    observer.emit(Started(environment=told, replicates=len(spec.seeds)))


def _step(spec: ResolvedSpec, observer: Observer, step: int, loss: float | None = 0.5) -> None:
    if observer.command() == "stop":
        raise TrainingStopped
    points = (MetricPoint(replicate=0, name=LOSS, step=step, value=loss),)
    observer.emit(Metrics(points=points))
    observer.emit(Progress(phase="training", step=step, total=spec.training.steps))


def _report(spec: ResolvedSpec, bases: tuple[Path, ...], scratch: Path, observer: Observer) -> None:
    observer.emit(ReplicatesDecided(replicates=(_replicate(spec),)))
    checkpoint = scratch / "checkpoint.safetensors"
    # What the bases hold decides the content, so that a test sees that they arrived.
    checkpoint.write_bytes(b"trained on " + b",".join(base.read_bytes() for base in bases))
    observer.emit(_checkpoint(checkpoint))
    observer.emit(
        Evaluated(
            evaluation=Evaluation(
                replicate=0,
                seed=spec.seeds[0],
                task=spec.evaluation_tasks[0],
                split="test",
                correct=5,
                total=8,
                outcomes="f8",
            )
        )
    )
    attention = scratch / "attention.npy"
    attention.write_bytes(hashlib.sha256(b"attention").digest())
    observer.emit(_attention(spec, attention))


def _replicate(spec: ResolvedSpec) -> ReplicateResult:
    return ReplicateResult(
        replicate=0,
        seed=spec.seeds[0],
        trial=0,
        learning_rate=spec.training.learning_rates[0],
        weight_decay=0.0,
        initial_scale=1.0,
        status="completed",
        selected=True,
        final_loss=0.5,
        validation_accuracy=None,
        steps=spec.training.steps,
    )


def _checkpoint(path: Path) -> CheckpointWritten:
    kind = Checkpoint(replicate=0, seed=0, kind="base_model", parameters=2, tensors={"a": (2,)})
    return CheckpointWritten(checkpoint=kind, path=path)


def _attention(spec: ResolvedSpec, path: Path) -> AttentionCaptured:
    summary = AttentionSummary(
        layer=0, head=0, entropy=1.0, learned_mass=0.0, divergence=0.0, relative_deviation=0.0
    )
    recorded = AttentionMap(
        replicate=0,
        seed=spec.seeds[0],
        source="base",
        shape=(1, 1, 1, 2, 2),
        learned_positions=0,
        target_start=1,
        tokens=((0, 1),),
        predictions=((1,),),
        summaries=(summary,),
    )
    return AttentionCaptured(attention=recorded, path=path)


def _control() -> Path:
    return Path(os.environ["RUNNER_CONTROL"])


def _note(name: str, text: str) -> bool:
    """Write a file once; false if it was there."""
    try:
        with (_control() / name).open("x") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _wait_for(name: str, should_stop: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not (_control() / name).exists():
        if should_stop():
            raise TrainingStopped
        assert time.monotonic() < deadline, f"{name} never came"
        time.sleep(0.01)  # how a run spends its time, not how it is synchronised
