"""Supervision of processes: start, restart, and stop in order.

Alternatives were circus, honcho and supervisord. None ties children to its own life after a change
of user, which ensures that `kill -9` of the supervisor leaves nothing running.
"""

import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptlab.errors import is_disk_full
from adaptlab_stack.data_directory import tail, trim_log
from adaptlab_stack.disk_room import DiskRoom
from adaptlab_stack.errors import StackError, StartFailed
from adaptlab_stack.process import ProcessSpec, describe_exit, kill_group, spawn
from adaptlab_stack.signs_of_life import SignsOfLife
from adaptlab_stack.waiting import Waiting

FIRST_DELAY = 0.1
LONGEST_DELAY = 10.0
STEADY_SECONDS = 30.0
LOOK_SECONDS = 0.05
SLOW_LOOK_SECONDS = 0.5
"""After `AWAITED_SECONDS`: each look asks the server whether it is ready."""
AWAITED_SECONDS = 15.0
"""Between two lines about a process that is awaited."""
TRIM_SECONDS = 60.0
AWAITING = "waiting for"
LINE_LENGTH = 160
ROOM_SECONDS = 1.0


class StopRequested(Exception):
    """A request to stop arrived during a start."""


@dataclass(slots=True, eq=False)
class _Child:
    spec: ProcessSpec
    log: Path
    process: subprocess.Popen[bytes]
    started: float
    exits: int = 0  # determines the delay before the next start
    failed_starts: int = 0  # exits with enough disk space
    restart_at: float | None = None
    is_ready: bool = False

    @property
    def alive(self) -> bool:
        return self.restart_at is None


class _Awaited:
    """A child until it is ready, with the lines about it."""

    def __init__(self, child: _Child) -> None:
        self.child = child
        self.lines = 0
        self._signs = SignsOfLife(child.log)
        self._begin = time.monotonic()

    def is_silent(self) -> bool:
        """Return True if there was no sign of life for too long."""
        return self._signs.silence(self.child.process.pid) > self.child.spec.silence_seconds

    def line(self) -> str | None:
        """Return what is awaited, if a line about it is due."""
        seconds = time.monotonic() - self._begin
        if seconds < AWAITED_SECONDS * (self.lines + 1):
            return None
        self.lines += 1
        last = tail(self.child.log, 1)
        text = f"{AWAITING} {self.child.spec.name}, {seconds:.0f} s so far"
        return f"{text}; its log: {last[:LINE_LENGTH]}" if last else text


class Supervisor:
    """A set of supervised processes.

    Args:
        waiting: how to sleep and when to stop.
        log_of: returns the log file of a process by name.
        report: takes one line about a notable event.
        changed: takes process ids by name whenever they change.
        room: check of the disk space that the processes need. While there is too little, exits do
            not count as failed starts, and a failed publication is repeated.
    """

    def __init__(
        self,
        waiting: Waiting,
        log_of: Callable[[str], Path],
        report: Callable[[str], None],
        changed: Callable[[Mapping[str, int]], None] = lambda _: None,
        room: DiskRoom | None = None,
    ) -> None:
        self._waiting = waiting
        self._log_of = log_of
        self._report = report
        self._changed = changed
        self._room = room
        self._is_published = True
        self._children: list[_Child] = []
        self._leaving: list[_Child] = []  # asked to end; not restarted

    @property
    def processes(self) -> Mapping[str, int]:
        """Ids of the running processes, by name."""
        return {child.spec.name: child.process.pid for child in self._children if child.alive}

    def start(self, specs: Sequence[ProcessSpec]) -> None:
        """Start processes in parallel and return when all are ready.

        Raises:
            StartFailed: one exited too often, or was silent for too long.
            StopRequested: a stop signal came first.
        """
        started = [self._spawn(spec) for spec in specs]
        self._children += started
        self._publish()
        for child in started:
            self._await_ready(child)

    def complete(self, spec: ProcessSpec) -> None:
        """Run a process to its successful end.

        Raises:
            StartFailed: it failed, or was silent for too long.
            StopRequested: a stop signal came first; the process has been killed.
        """
        child = self._spawn(spec)
        try:
            awaited = _Awaited(child)
            while (status := child.process.poll()) is None:
                self._tend()
                self._pause_unless_stopped(awaited)
            if status != 0:
                raise self._failure(child, describe_exit(status))
        finally:
            kill_group(child.process)
            child.process.wait()

    def watch(self, serve: Callable[[], None] = lambda: None) -> None:
        """Restart processes that die, until a stop signal comes.

        Args:
            serve: does what was requested since its last call; may raise `StopRequested`.
        """
        next_trim = time.monotonic()
        while not self._waiting.stop_requested:
            self._tend()
            try:
                serve()
            except StopRequested:
                return
            now = time.monotonic()
            if now >= next_trim:
                self._trim_logs()
                self._is_short_of_room()
                next_trim = now + TRIM_SECONDS
            due = [child.restart_at for child in self._children if child.restart_at is not None]
            if not self._is_published or (self._room is not None and self._room.is_short):
                due.append(now + ROOM_SECONDS)
                self._look_for_room()
            self._waiting.pause(min([next_trim, *due]) - now)

    def retire(self, names: Collection[str]) -> None:
        """End processes without haste, all at a time, and do not restart them.

        Raises:
            StopRequested: a stop signal came first; `stop` ends them too.
        """
        leaving = [child for child in self._children if child.spec.name in names]
        self._await_end(leaving, self._ask_to_leave(leaving))

    def replace(self, specs: Sequence[ProcessSpec]) -> None:
        """Restart processes under new specs, one after the other, without haste.

        One that is not running is started.

        Raises:
            StartFailed: a new process exited too often, or was silent for too long. It is restarted
                like one that dies; those after it keep their specs.
            StopRequested: a stop signal came first; `stop` ends both old and new processes.
        """
        for spec in specs:
            old = [child for child in self._children if child.spec.name == spec.name]
            deadline = self._ask_to_leave(old)
            if not spec.sockets:
                self._await_end(old, deadline)
            child = self._spawn(spec)
            self._children.append(child)
            self._publish()
            try:
                self._await_ready(child)
            finally:
                child.is_ready = True
            self._await_end(old, deadline)

    def stop(self) -> None:
        """Stop all processes, stage by stage; none is left when it returns."""
        everything = [*self._children, *self._leaving]
        for stage in sorted({child.spec.stop_stage for child in everything}):
            of_stage = [child for child in everything if child.spec.stop_stage == stage]
            _end([child.process for child in of_stage], [child.spec for child in of_stage])
        self._children.clear()
        self._leaving.clear()
        self._publish()

    def _ask_to_leave(self, children: Sequence[_Child]) -> float:
        """Signal children, which are not restarted; return their deadline."""
        self._leaving += children
        self._children = [child for child in self._children if child not in children]
        seconds = 0.0
        for child in children:
            step = child.spec.leave or child.spec.stop[0]
            seconds = max(seconds, step.seconds)
            if child.process.poll() is None:
                child.process.send_signal(step.signal)
        return time.monotonic() + seconds

    def _await_end(self, children: Sequence[_Child], deadline: float) -> None:
        while time.monotonic() < deadline and any(c.process.poll() is None for c in children):
            self._tend()
            self._waiting.pause(LOOK_SECONDS)
            if self._waiting.stop_requested:
                raise StopRequested
        for child in children:
            if child not in self._leaving:
                continue
            if child.process.poll() is None:
                self._report(f"{child.spec.name} did not end in time and was killed")
            kill_group(child.process)
            child.process.wait()
            self._leaving.remove(child)
        self._publish()

    def _spawn(self, spec: ProcessSpec) -> _Child:
        log = self._log_of(spec.name)
        try:
            trim_log(log)
            process = spawn(spec, log)
        except OSError as error:
            raise StackError(f"{spec.name} cannot be started: {error}") from error
        return _Child(spec, log, process, time.monotonic())

    def _await_ready(self, child: _Child) -> None:
        awaited = _Awaited(child)
        while True:
            self._tend()
            if child.alive and child.spec.ready():
                # Checked after the answer, because an older process may have given it.
                self._tend()
                if child.alive:
                    child.is_ready = True
                    return
            self._pause_unless_stopped(awaited)

    def _pause_unless_stopped(self, awaited: _Awaited) -> None:
        child = awaited.child
        if awaited.is_silent() and not self._is_short_of_room():
            raise self._failure(
                child,
                f"is not ready, and for {child.spec.silence_seconds:.0f} s has neither written to "
                "its log nor computed",
            )
        if line := awaited.line():
            self._report(line)
        self._waiting.pause(LOOK_SECONDS if awaited.lines == 0 else SLOW_LOOK_SECONDS)
        if self._waiting.stop_requested:
            raise StopRequested

    def _tend(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.alive and (status := child.process.poll()) is not None:
                self._note_exit(child, status, now)
            if child.restart_at is not None and now >= child.restart_at:
                self._restart(child)

    def _note_exit(self, child: _Child, status: int, now: float) -> None:
        kill_group(child.process)
        if now - child.started > STEADY_SECONDS:
            child.exits = child.failed_starts = 0
        child.failed_starts += not self._is_short_of_room()
        self._schedule(child, describe_exit(status), now)
        if not child.is_ready and child.failed_starts >= child.spec.start_attempts:
            raise self._failure(child, describe_exit(status))
        self._publish()

    def _schedule(self, child: _Child, reason: str, now: float) -> None:
        delay = min(FIRST_DELAY * 2**child.exits, LONGEST_DELAY)
        child.exits += 1
        child.restart_at = now + delay
        if child.is_ready:
            self._report(f"{child.spec.name} {reason}; restarting it in {delay:.1f} s")

    def _restart(self, child: _Child) -> None:
        try:
            fresh = self._spawn(child.spec)
        except StackError as error:
            self._schedule(child, str(error), time.monotonic())
            return
        child.process, child.started, child.restart_at = fresh.process, fresh.started, None
        self._publish()

    def _publish(self) -> None:
        try:
            self._changed(self.processes)
        except OSError as error:
            if not is_disk_full(error):
                raise
            self._is_published = False
            self._is_short_of_room()
        else:
            self._is_published = True

    def _is_short_of_room(self) -> bool:
        return self._room is not None and self._room.look()

    def _look_for_room(self) -> None:
        if not self._is_short_of_room() and not self._is_published:
            self._publish()

    def _trim_logs(self) -> None:
        for child in self._children:
            try:
                trim_log(child.log)
            except OSError as error:  # the log grows until there is space for its copy
                if not is_disk_full(error):
                    raise

    def _failure(self, child: _Child, reason: str) -> StartFailed:
        return StartFailed(child.spec.name, reason, child.log, tail(child.log))


def _end(processes: Sequence[subprocess.Popen[bytes]], specs: Sequence[ProcessSpec]) -> None:
    """Take all processes through their stop steps, then kill what is left."""
    begin = time.monotonic()
    sent = [0] * len(processes)
    while any(process.poll() is None for process in processes):
        elapsed = time.monotonic() - begin
        for index, (process, spec) in enumerate(zip(processes, specs, strict=True)):
            while sent[index] <= len(spec.stop) and elapsed >= sum(
                step.seconds for step in spec.stop[: sent[index]]
            ):
                _send_step(process, spec, sent[index])
                sent[index] += 1
        time.sleep(0.01)
    for process in processes:
        kill_group(process)


def _send_step(process: subprocess.Popen[bytes], spec: ProcessSpec, index: int) -> None:
    if process.poll() is not None:
        return
    if index < len(spec.stop):
        process.send_signal(spec.stop[index].signal)
    else:
        kill_group(process)
