"""The trainer: a process of its own that loads torch once and carries out one run after another.

Started as `python -m adaptlab_worker.trainer FD PARENT_PID SILENCE [RUNNER]`, by `confined`, which
sets limits first; never imported. It has no database and no broker; it may be killed at any moment,
and ends by itself when the worker has said nothing for SILENCE seconds, or, if its run is strict,
before the run's lease can end.
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

from adaptlab.engine.allocator import keep_freed_memory, return_freed_memory
from adaptlab.errors import (
    BadCheckpoint,
    BadDataset,
    BadModelFolder,
    InvalidSpec,
    TrainingDiverged,
    TrainingStopped,
    is_disk_full,
    is_out_of_memory,
)
from adaptlab.loading import uncollected
from adaptlab.measurements.results import Event, MetricPoint, Metrics, Progress
from adaptlab.plugins.adaptation import AdapterFile
from adaptlab.specs.resolved import Resolved, readable
from adaptlab_worker.alarm import Alarm
from adaptlab_worker.protocol import (
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
from adaptlab_worker.warm_up import tiny_run

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PROGRESS_SECONDS = 1.0  # a heartbeat, which tells the last one to others, comes every 2
MOST_HELD = 1000  # points of curves
COMPILE = "ADAPTLAB_COMPILE"
TEMPORARY = "TMPDIR"


class Runner(Protocol):
    """What carries out a run: `adaptlab.engine.run.run`, or a stand-in in tests."""

    def __call__(
        self,
        spec: Resolved,
        bases: tuple[Path, ...],
        scratch: Path,
        observer: "PipeObserver",
        *,
        resume: Path | None = None,
        folder: Path | None = None,
        adapters: tuple[AdapterFile, ...] = (),
        datasets: tuple[Path, ...] = (),
        clock: Callable[[], float] | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Report everything to the observer; return when done, raise when it cannot be done."""
        ...


# Its type arguments are about pickled objects, which never travel.
Pipe: TypeAlias = "Connection[Any, Any]"

Command = Literal["continue", "save", "stop"]  # as in adaptlab.engine.observer

log = logging.getLogger(__name__)


class Inbox:
    """The worker's requests, read by a thread so that a stop is seen in the middle of a run."""

    def __init__(self, pipe: Pipe, silence: float, alarm: Alarm) -> None:
        self._pipe = pipe
        self._alarm = alarm
        self._silence = silence
        self._runs: queue.SimpleQueue[RunRequest] = queue.SimpleQueue()
        self._stop: StopRequest | None = None

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def next_run(self) -> RunRequest:
        """The next run, waited for as long as it takes."""
        return self._runs.get()

    def stop_of(self, run: str) -> StopRequest | None:
        """How the worker wants that run to stop, if it does."""
        stop = self._stop
        return stop if stop is not None and stop.run == run else None

    def _read(self) -> None:
        while True:
            try:
                if not self._pipe.poll(self._silence):
                    # Frozen or cut off: what this run goes on to compute would not be wanted.
                    log.warning("the worker has said nothing for %.0f s; leaving", self._silence)
                    os._exit(0)
                frame = self._pipe.recv_bytes(LARGEST_FRAME)
            except (EOFError, OSError):
                # The worker is gone: nobody could receive what comes next, whatever it is.
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
    """Hands the events of one run to the worker.

    To say something takes as long as a part of a small step, so the points of curves wait for what
    is said next: the steps once a second, everything else at once.
    """

    def __init__(self, pipe: Pipe, inbox: Inbox, request: RunRequest) -> None:
        self._pipe = pipe
        self._inbox = inbox
        self._run = request.run
        self._save_seconds = request.save_seconds
        self._saved_at = time.monotonic()
        self._told_at = 0.0
        self._held: list[MetricPoint] = []
        self._has_saved_to_stop = False

    def emit(self, event: Event) -> None:
        """Send an event; waits while the worker is behind. Of the steps, some are enough."""
        if isinstance(event, Metrics):
            self._held += event.points
            if len(self._held) >= MOST_HELD:
                self.tell_points()
            return
        if isinstance(event, Progress) and 1 < event.step < event.total:
            if time.monotonic() - self._told_at < PROGRESS_SECONDS:
                return
            self._told_at = time.monotonic()
        self.tell_points()
        self._pipe.send_bytes(frame_of(event))

    def tell_points(self) -> None:
        """Send the points that wait."""
        if self._held:
            self._pipe.send_bytes(frame_of(Metrics(points=tuple(self._held))))
            self._held = []

    def command(self) -> Command:
        """Stop when the worker says so, and save the state from time to time."""
        stop = self._inbox.stop_of(self._run)
        if stop is None:
            if time.monotonic() - self._saved_at < self._save_seconds:
                return "continue"
            self._saved_at = time.monotonic()
            return "save"
        if stop.save and not self._has_saved_to_stop:
            self._has_saved_to_stop = True
            return "save"
        return "stop"


class SilentObserver(PipeObserver):
    """Tells nobody: for the run that only warms the process up."""

    def __init__(self) -> None:
        """There is nothing to hold."""

    def emit(self, event: Event) -> None:
        """Forget the event."""

    def command(self) -> Command:
        """Go on."""
        return "continue"


def main(arguments: list[str]) -> None:
    """Serve runs until the worker goes away."""
    leave_signals_to_the_worker()
    descriptor, parent, silence, *named = arguments
    tie_to_parent(int(parent))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s trainer: %(message)s")
    pipe: Pipe = Connection(int(descriptor))
    alarm = Alarm()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whatever the worker was started with
    inbox = Inbox(pipe, float(silence), alarm)
    inbox.start()
    with uncollected():
        runner = load_runner(named[0] if named else ENGINE)
    keep_freed_memory()
    if not named:
        if os.environ.get(COMPILE) != "off":
            # Late: loading torch takes seconds, and whatever stands in for the engine needs none.
            from adaptlab.engine.compiled import compile_kernels

            compile_kernels()
        warm_up(runner)
    pipe.send_bytes(frame_of(Ready()))
    while True:
        request = inbox.next_run()
        return_freed_memory()
        ended = carry_out(runner, request, PipeObserver(pipe, inbox, request))
        alarm.end()
        pipe.send_bytes(frame_of(ended))


def leave_signals_to_the_worker() -> None:
    """Go on where a scheduler warns every process of a batch job: the worker says what to do.

    Handlers and not `SIG_IGN`, which the programs that a run starts would inherit.
    """

    def go_on(number: int, frame: FrameType | None) -> None:
        """Whatever the signal says."""

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, go_on)


def tie_to_parent(parent: int) -> None:
    """Have the kernel end this process with the worker's, however that ends.

    Set here and not between fork and exec, where code of a process with threads can deadlock.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def load_runner(name: str) -> Runner:
    """The function that `module:function` names."""
    module, _, function = name.partition(":")
    return cast(Runner, getattr(importlib.import_module(module), function))


def warm_up(runner: Runner) -> None:
    """Run two steps of a tiny job, so that no user's job waits for what torch loads lazily."""
    try:
        with tempfile.TemporaryDirectory(prefix="adaptlab-warm-up-") as folder:
            runner(tiny_run(), (), Path(folder), SilentObserver())
    except Exception:
        log.exception("the warm-up failed; jobs are taken all the same")


def carry_out(runner: Runner, request: RunRequest, observer: PipeObserver) -> Ended:
    """Carry out one run and say how it ended."""
    try:
        with temporary_files_below(request.scratch), told_to_the_end(observer):
            runner(
                readable(request.resolved),
                request.bases,
                request.scratch,
                observer,
                resume=request.resume,
                folder=request.folder,
                adapters=request.adapters,
                datasets=request.datasets,
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
    """Have nothing wait any more when the run is over, however it ends."""
    try:
        yield
    finally:
        observer.tell_points()


@contextmanager
def temporary_files_below(folder: Path) -> Generator[None]:
    """Have temporary files of this run, and of what it starts, end with its folder.

    So no run finds what another one left.
    """
    own = folder / "tmp"
    own.mkdir(mode=0o700, exist_ok=True)
    before = os.environ.get(TEMPORARY)
    os.environ[TEMPORARY] = tempfile.tempdir = str(own)
    try:
        yield
    finally:
        tempfile.tempdir = None  # found out anew
        if before is None:
            del os.environ[TEMPORARY]
        else:
            os.environ[TEMPORARY] = before


def failure(error: Exception) -> Ended:
    """The reason that an exception stands for, and whether another attempt could help."""
    told = str(error) or type(error).__name__
    if isinstance(error, InvalidSpec | BadModelFolder):
        return Ended(outcome="failed", reason="user_error", error=told)
    if isinstance(error, BadDataset | BadCheckpoint):
        # The bytes are those that were asked for, and would be no better another time.
        return Ended(outcome="failed", reason="system_error", error=told)
    if isinstance(error, TrainingDiverged):
        return Ended(outcome="failed", reason="diverged", error=told)
    if is_out_of_memory(error):
        # The same job would ask for the same memory again.
        return Ended(outcome="failed", reason="out_of_memory", error=told, healthy=False)
    return Ended(
        outcome="failed",
        reason="disk_full" if is_disk_full(error) else "system_error",
        error=f"{type(error).__name__}: {error}",
        retry=True,
        healthy=False,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
