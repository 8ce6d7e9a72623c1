"""The trainer: a process that loads torch once and executes runs.

`confined` sets limits and starts it as `python -m adaptlab_worker.trainer.trainer FD PARENT_PID
SILENCE [RUNNER]`; it is never imported. It has no database and no broker and may be killed at any
moment. It exits if the worker is silent for SILENCE seconds or, if its run is strict, before the
run's lease can end.
"""

import ctypes
import importlib
import logging
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol, TypeAlias, cast

from adaptlab.engine.kernels.allocator import keep_freed_memory, return_freed_memory
from adaptlab.errors import (
    BadAdapter,
    BadCheckpoint,
    BadDataset,
    BadModelFolder,
    InvalidSpec,
    KernelsMissing,
    TrainingDiverged,
    TrainingStopped,
    is_disk_full,
    is_out_of_memory,
)
from adaptlab.loading import uncollected
from adaptlab.runs.events import Event, MetricPoint, Metrics, Progress, TrainingSaved
from adaptlab.runs.inputs import NOTHING_PLACED, PlacedInputs
from adaptlab.specs.resolved import Resolved, readable
from adaptlab_services import log_formats
from adaptlab_worker.trainer.lease_alarm import Alarm
from adaptlab_worker.trainer.protocol import (
    ENGINE,
    LARGEST_FRAME,
    Ended,
    LeaseKept,
    Ready,
    Request,
    RunRequest,
    StopRequest,
    frame_of,
    read_request,
)
from adaptlab_worker.trainer.run_errors import breaks_trainer, would_repeat
from adaptlab_worker.trainer.save_times import SaveTimes
from adaptlab_worker.trainer.warm_up import tiny_run

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PROGRESS_SECONDS = 1.0  # a heartbeat, which reports the last one, is sent every 2
MOST_HELD = 1000  # points of curves
CARDS = "/dev/nvidia{}"
MOST_CARDS = 16  # of a machine
COMPILE = "ADAPTLAB_COMPILE"
TEMPORARY = "TMPDIR"


class Runner(Protocol):
    """The function that executes a run: the engine's, or one of tests."""

    def __call__(
        self,
        spec: Resolved,
        inputs: PlacedInputs,
        scratch: Path,
        observer: "PipeObserver",
        *,
        clock: Callable[[], float] | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Report everything to the observer; return at the end, raise on failure."""
        ...


# Its type arguments are those of pickled objects, which are never sent.
Pipe: TypeAlias = "Connection[Any, Any]"

Command = Literal["continue", "save", "stop"]  # as in adaptlab.engine.observer

log = logging.getLogger(__name__)


class Inbox:
    """The worker's requests, read by a thread, so also during a run."""

    def __init__(self, pipe: Pipe, silence: float, alarm: Alarm) -> None:
        self._pipe = pipe
        self._alarm = alarm
        self._silence = silence
        self._runs: queue.SimpleQueue[RunRequest] = queue.SimpleQueue()
        self._stop: StopRequest | None = None

    def start(self) -> None:
        """Start to read."""
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def next_run(self) -> RunRequest:
        """Wait for the next run and return it."""
        return self._runs.get()

    def stop_of(self, run: str) -> StopRequest | None:
        """Return the request to stop that run, if there is one."""
        stop = self._stop
        return stop if stop is not None and stop.run == run else None

    def _read(self) -> None:
        while True:
            try:
                if not self._pipe.poll(self._silence):
                    # Frozen or cut off: the results of this run would not be accepted.
                    log.warning("the worker has been silent for %.0f s; exiting", self._silence)
                    os._exit(0)
                frame = self._pipe.recv_bytes(LARGEST_FRAME)
            except (EOFError, OSError):
                # The worker is gone, so nothing could receive the results.
                os._exit(0)
            self._take(read_request(frame))

    def _take(self, request: Request) -> None:
        if isinstance(request, RunRequest):
            self._alarm.begin(request.run, request.until)
            self._runs.put(request)
        elif isinstance(request, LeaseKept):
            self._alarm.postpone(request.run, request.until)
        elif isinstance(request, StopRequest):
            self._stop = request


class PipeObserver:
    """The observer of one run, which sends its events to the worker.

    A message costs a considerable part of a small step. So curve points wait for the next message:
    progress is sent once a second, everything else at once.
    """

    def __init__(self, pipe: Pipe, inbox: Inbox, request: RunRequest) -> None:
        self._pipe = pipe
        self._inbox = inbox
        self._run = request.run
        self._save_times = SaveTimes(request.save_seconds, time.monotonic())
        self._told_at = 0.0
        self._held: list[MetricPoint] = []
        self._has_saved_to_stop = False

    def emit(self, event: Event) -> None:
        """Send an event, except most progress; block while worker is behind."""
        if isinstance(event, Metrics):
            self._held += event.points
            if len(self._held) >= MOST_HELD:
                self.tell_points()
            return
        if isinstance(event, Progress) and 1 < event.step < event.total:
            if time.monotonic() - self._told_at < PROGRESS_SECONDS:
                return
            self._told_at = time.monotonic()
        if isinstance(event, TrainingSaved):
            self._save_times.saved(event.path.stat().st_size)
        self.tell_points()
        self._pipe.send_bytes(frame_of(event))

    def tell_points(self) -> None:
        """Send the points that wait."""
        if self._held:
            self._pipe.send_bytes(frame_of(Metrics(points=tuple(self._held))))
            self._held = []

    def command(self) -> Command:
        """Return `stop` at the worker's request, and `save` from time to time."""
        stop = self._inbox.stop_of(self._run)
        if stop is None:
            return "save" if self._save_times.is_due(time.monotonic()) else "continue"
        if stop.save and not self._has_saved_to_stop:
            self._has_saved_to_stop = True
            return "save"
        return "stop"


class SilentObserver(PipeObserver):
    """An observer that drops all events, for the warm-up run."""

    def __init__(self) -> None:
        """Hold nothing."""

    def emit(self, event: Event) -> None:
        """Drop the event."""

    def command(self) -> Command:
        """Return `continue`."""
        return "continue"


def main(arguments: list[str]) -> None:
    """Serve runs until the worker is gone."""
    leave_signals_to_the_worker()
    descriptor, parent, silence, *names = arguments
    tie_to_parent(int(parent))
    log_formats.set_up_child(name="trainer")
    pipe: Pipe = Connection(int(descriptor))
    alarm = Alarm()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whatever the worker was started with
    inbox = Inbox(pipe, float(silence), alarm)
    inbox.start()
    with uncollected():
        runner = load_runner(names[0] if names else ENGINE)
    keep_freed_memory()
    if not names:
        prepare_engine(runner)
    pipe.send_bytes(frame_of(Ready()))
    while True:
        request = inbox.next_run()
        return_freed_memory()
        job_id, _, attempt = request.run.rpartition("-")
        with log_formats.about(job_id=job_id, attempt=attempt):
            ended = carry_out(runner, request, PipeObserver(pipe, inbox, request))
        alarm.end()
        pipe.send_bytes(frame_of(ended))


def prepare_engine(runner: Runner) -> None:
    """Compile kernels, and run what later runs would load first.

    The process exits if kernels cannot be compiled: no job may be computed otherwise than others.
    """
    if os.environ.get(COMPILE) != "off":
        # Late: loading torch takes seconds, and a replacement of the engine may not need it.
        from adaptlab.engine.kernels.compiled import compile_kernels
        from adaptlab.engine.training.step_graph import use_graphs

        try:
            compile_kernels()
        except KernelsMissing as error:
            log.error("%s", error)  # noqa: TRY400 - the compiler's words say more
            sys.exit(1)
        use_graphs()
    warm_up(runner)
    say_where_runs_train()


def leave_signals_to_the_worker() -> None:
    """Ignore signals that a scheduler sends to all processes.

    The worker handles them.

    By handlers and not by `SIG_IGN`, which child processes would inherit.
    """

    def go_on(number: int, frame: FrameType | None) -> None:
        """Do nothing."""

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, go_on)


def tie_to_parent(parent: int) -> None:
    """Make the kernel end this process with the worker's, however that ends.

    It is set here and not between fork and exec, where a process with threads can deadlock.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def load_runner(name: str) -> Runner:
    """Import the function named `module:function`."""
    module, _, function = name.partition(":")
    return cast(Runner, getattr(importlib.import_module(module), function))


def warm_up(runner: Runner) -> None:
    """Run a tiny job, so that no user's job waits for lazy loading."""
    try:
        with tempfile.TemporaryDirectory(prefix="adaptlab-warm-up-") as folder:
            runner(tiny_run(), NOTHING_PLACED, Path(folder), SilentObserver())
    except Exception:
        log.exception("the warm-up failed; jobs are taken anyway")


def say_where_runs_train() -> None:
    """Log the GPU that runs use, or warn of one that torch cannot use."""
    import torch

    if torch.cuda.is_available():
        log.info("runs train on %s", torch.cuda.get_device_name())
        warn_of_slow_dropout()
    elif any(Path(CARDS.format(number)).exists() for number in range(MOST_CARDS)):
        try:
            torch.cuda.init()
            fault = "it finds none"
        except (RuntimeError, AssertionError) as error:  # the latter from a build without CUDA
            fault = str(error).strip().split("\n", 1)[0]
        log.warning(
            "this machine has a GPU that torch cannot use, so runs train on the CPU: %s", fault
        )


def warn_of_slow_dropout() -> None:
    """Warn if the GPU cannot use the kernel of dropout."""
    import torch

    from adaptlab.engine.kernels.fused_dropout import dropout_fault

    fault = dropout_fault(torch.device("cuda", torch.cuda.current_device()))
    if fault is not None:
        log.warning(
            "dropout takes nine kernels instead of two on this GPU, because its own kernel cannot "
            "be used: %s",
            fault,
        )


def carry_out(runner: Runner, request: RunRequest, observer: PipeObserver) -> Ended:
    """Execute one run and return its end."""
    try:
        with temporary_files_below(request.scratch), told_to_the_end(observer):
            runner(
                readable(request.resolved),
                request.inputs,
                request.scratch,
                observer,
                clock=time.perf_counter,
                memory_bytes=request.memory_bytes,
            )
    except TrainingStopped:
        return Ended(outcome="stopped")
    except Exception as error:
        log.exception("run %s failed", request.run)
        return failure(error)
    return Ended(outcome="finished")


@contextmanager
def told_to_the_end(observer: PipeObserver) -> Generator[None]:
    """Send all waiting points when the run is over, however it ends."""
    try:
        yield
    finally:
        observer.tell_points()


@contextmanager
def temporary_files_below(folder: Path) -> Generator[None]:
    """Put temporary files of this run and its children into its folder.

    So no run sees another's files.
    """
    own = folder / "tmp"
    own.mkdir(mode=0o700, exist_ok=True)
    before = os.environ.get(TEMPORARY)
    os.environ[TEMPORARY] = tempfile.tempdir = str(own)
    try:
        yield
    finally:
        tempfile.tempdir = None  # determined again on demand
        if before is None:
            del os.environ[TEMPORARY]
        else:
            os.environ[TEMPORARY] = before


def failure(error: Exception) -> Ended:
    """Return the end of a run that raised an exception."""
    message = str(error) or type(error).__name__
    if isinstance(error, InvalidSpec | BadModelFolder | BadAdapter):
        return Ended(outcome="failed", reason="user_error", error=message)
    if isinstance(error, BadDataset | BadCheckpoint):
        # The bytes have the requested digest, so fetching them again would not help.
        return Ended(outcome="failed", reason="system_error", error=message)
    if isinstance(error, TrainingDiverged):
        return Ended(outcome="failed", reason="diverged", error=message)
    if is_out_of_memory(error):
        # The same job would need the same memory again.
        healthy = not breaks_trainer(error)
        return Ended(outcome="failed", reason="out_of_memory", error=message, healthy=healthy)
    is_full = is_disk_full(error)
    return Ended(
        outcome="failed",
        reason="disk_full" if is_full else "system_error",
        error=f"{type(error).__name__}: {error}",
        retry=is_full or not would_repeat(error),
        healthy=not breaks_trainer(error),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
