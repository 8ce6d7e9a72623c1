"""Stand-ins for the engine, without torch and controlled by files.

The folder RUNNER_CONTROL holds the files: a run writes what it reached there and waits for what a
test puts there.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stand_ins import (
    ENVIRONMENT,
    Observer,
    attention_of,
    checkpoint_of,
    evaluation_of,
    loss_at,
    replicates_of,
    weights_of,
)

from adaptlab.errors import InvalidSpec, Problem, TrainingDiverged, TrainingStopped
from adaptlab.runs.events import (
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
    Event,
    Progress,
    ReplicatesDecided,
    Started,
)
from adaptlab.runs.inputs import PlacedInputs
from adaptlab.specs.resolved import Resolved, write_resolved
from adaptlab.specs.spec import ResolvedSpec

if TYPE_CHECKING:
    from adaptlab.engine.observer import Command
    from adaptlab.engine.observer import Observer as EngineObserver

DEADLINE = 60.0


@dataclass(frozen=True)
class Given:
    """The arguments of a run, without those that only the engine needs."""

    spec: ResolvedSpec
    inputs: PlacedInputs
    scratch: Path
    observer: Observer

    @property
    def bases(self) -> tuple[Path, ...]:
        """The files of the base model's replicates."""
        return tuple(base.path for base in self.inputs.bases)


def runner(carry_out: Callable[[Given], None]) -> Callable[..., None]:
    """A stand-in, called as the trainer calls the engine."""

    @wraps(carry_out)
    def called(
        spec: Resolved,
        inputs: PlacedInputs,
        scratch: Path,
        observer: Observer,
        **_: object,
    ) -> None:
        carry_out(Given(write_resolved(spec), inputs, scratch, observer))

    return called


@runner
def complete(given: Given) -> None:
    """A run that reports everything that the engine reports."""
    finish(given)


@runner
def held(given: Given) -> None:
    """Writes its first step and then waits for `go`."""
    _start(given)
    _step(given, 1)
    _wait_for("go", lambda: given.observer.command() == "stop")
    finish(given)
    _note("done", "yes")


@runner
def slow_to_save(given: Given) -> None:
    """Takes longer to stop than a worker in haste waits."""
    _start(given)
    _step(given, 1)
    try:
        _wait_for("go", lambda: given.observer.command() == "stop")
    except TrainingStopped:
        time.sleep(2.5)  # how it saves its state
        _note("saved", "yes")
        raise


@runner
def stubborn(given: Given) -> None:
    """Does not listen to a stop, and has a child that would outlive it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    _note("child", str(child.pid))
    _start(given)
    _step(given, 1)
    _wait_for("go", lambda: False)


@runner
def hung(given: Given) -> None:
    """Gets stuck after its first step, alive and deaf."""
    _start(given)
    _step(given, 1)
    _wait_for("go", lambda: False)


@runner
def seized(given: Given) -> None:
    """Holds the interpreter, as a kernel may; other threads stand still."""
    _note("seized", "yes")
    # A C function called with the interpreter's lock in hand, unlike those of `CDLL`.
    ctypes.PyDLL(None).sleep(30)


@runner
def killed_once(given: Given) -> None:
    """Is killed at its first step, the first time."""
    _start(given)
    _step(given, 1)
    if _note("killed", "yes"):
        os.kill(os.getpid(), signal.SIGKILL)
    finish(given)


@runner
def killed(given: Given) -> None:
    """Is killed every time."""
    _start(given)
    os.kill(os.getpid(), signal.SIGKILL)


@runner
def killed_for_memory(given: Given) -> None:
    """Is killed every time, and counted as the kernel would.

    See `test_memory_kills.py`.
    """
    _start(given)
    events = _control() / "sys/fs/cgroup/memory.events"
    count = int(events.read_text().removeprefix("oom_kill "))
    events.write_text(f"oom_kill {count + 1}")
    os.kill(os.getpid(), signal.SIGKILL)


@runner
def broken(given: Given) -> None:
    """Fails for no reason of the user's."""
    raise RuntimeError("a bug at heart")


@runner
def failing_by_seed(given: Given) -> None:
    """Fails as code does, for jobs of the seed 13."""
    _start(given)
    if 13 in given.spec.seeds:
        _step(given, 1)
        raise IndexError("index 320 is out of bounds for dimension 0 with size 300")
    finish(given)


@runner
def full(given: Given) -> None:
    """Meets with a full disk once it may."""
    _start(given)
    _step(given, 1)
    _wait_for("go", lambda: given.observer.command() == "stop")
    Path("/dev/full").write_bytes(b"weights")


@runner
def invalid(given: Given) -> None:
    """Finds the user's fault late."""
    raise InvalidSpec(Problem(pointer="/task", code="wrong", detail="not like this"))


@runner
def diverging(given: Given) -> None:
    """Keeps its curve and gives up."""
    _start(given)
    _step(given, 1, None)
    raise TrainingDiverged("every replicate diverged at step 1")


@runner
def hungry(given: Given) -> None:
    """Cannot get memory, in the words that torch has for it on a CPU."""
    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")


@runner
def outside(given: Given) -> None:
    """Claims that a file elsewhere is its checkpoint."""
    _start(given)
    given.observer.emit(_checkpoint(given.spec, Path("/etc/hostname")))


@runner
def environment(given: Given) -> None:
    """Tells the names of its environment variables."""
    _note("environment", "\n".join(os.environ))
    finish(given)


@runner
def folder(given: Given) -> None:
    """Reports its model folder, and what it can see of the roots."""
    _start(given)
    assert given.inputs.folder is not None
    _note("folder", f"{given.inputs.folder.path}\n{os.environ.get('ADAPTLAB_MODEL_ROOTS', '')}")


def held_elsewhere(
    spec: Resolved, inputs: PlacedInputs, scratch: Path, observer: "EngineObserver", **named: Any
) -> None:
    """The engine, which waits for `go` after a score on another base model."""
    from adaptlab.running.run import run  # loads torch

    run(spec, inputs, scratch, _HeldElsewhere(observer), **named)


@dataclass(frozen=True)
class _HeldElsewhere:
    observer: "EngineObserver"

    def emit(self, event: Event) -> None:
        """Pass an event on, and wait after the first of another base model."""
        self.observer.emit(event)
        if isinstance(event, Evaluated) and event.evaluation.base_model is not None:
            _note("elsewhere", str(os.getpid()))
            _wait_for("go", lambda: False)

    def command(self) -> "Command":
        """Return what the worker wants."""
        return self.observer.command()


BY_SEED = (invalid, diverging, hungry, broken, outside, held, killed_once, killed)


def by_seed(spec: Resolved, *arguments: Any, **named: Any) -> None:
    """The run that the job's only seed stands for.

    One worker can thus have several.
    """
    (seed,) = spec.seeds
    BY_SEED[seed](spec, *arguments, **named)


def seed_of(carried_out: Callable[..., None]) -> int:
    """The seed of a job that `by_seed` carries out so."""
    return BY_SEED.index(carried_out)


def finish(given: Given) -> None:
    """The whole of a run, for a stand-in that does something else as well."""
    _start(given)
    for step in range(1, given.spec.training.steps + 1):
        _step(given, step)
    _report(given)


def _start(given: Given) -> None:
    _note(f"pid-{os.getpid()}", "")
    given.observer.emit(Started(environment=ENVIRONMENT, replicates=len(given.spec.seeds)))


def _step(given: Given, step: int, loss: float | None = 0.5) -> None:
    if given.observer.command() == "stop":
        raise TrainingStopped
    given.observer.emit(loss_at(step, loss))
    total = given.spec.training.steps
    given.observer.emit(Progress(phase="training", step=step, total=total))


def _report(given: Given) -> None:
    emit = given.observer.emit
    emit(ReplicatesDecided(replicates=replicates_of(given.spec)))
    _write_checkpoints(given)
    emit(Evaluated(evaluation=evaluation_of(given.spec)))
    if (captured := attention_of(given.spec)) is not None:
        attention, content = captured
        path = given.scratch / "attention.npy"
        path.write_bytes(content)
        emit(AttentionCaptured(attention=attention, path=path))


def _write_checkpoints(given: Given) -> None:
    # What the bases hold decides the content, so that a test sees that they arrived.
    note = "trained on " + ",".join(base.read_bytes().decode() for base in given.bases)
    for number in range(len(given.spec.seeds)):
        file = given.scratch / f"checkpoint-{number}.safetensors"
        written = _checkpoint(given.spec, file, number)
        file.write_bytes(weights_of(written.checkpoint, note))
        given.observer.emit(written)


def _checkpoint(spec: ResolvedSpec, path: Path, number: int = 0) -> CheckpointWritten:
    return CheckpointWritten(checkpoint=checkpoint_of(spec, number), path=path)


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


def refusal(deed: Callable[[], object]) -> str:
    """The name of the error that a deed ends in, or `done`."""
    try:
        deed()
    except OSError as error:
        return type(error).__name__
    return "done"
