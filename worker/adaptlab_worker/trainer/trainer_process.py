"""The worker's end of a trainer: start it, talk to it, end it."""

import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from adaptlab_services.log_formats import FORMAT_VARIABLE, LEVEL_VARIABLE
from adaptlab_worker.confinement.confinement import RunsAs, TrainerLimits, machine_memory
from adaptlab_worker.confinement.system_calls import can_refuse
from adaptlab_worker.confinement.trainer_user import TrainerUser
from adaptlab_worker.errors import TrainerGone
from adaptlab_worker.trainer.memory_kills import MemoryKills
from adaptlab_worker.trainer.pipe_wake import Wake
from adaptlab_worker.trainer.protocol import (
    LARGEST_FRAME,
    Message,
    MessageReader,
    Ready,
    Request,
    StillHere,
    frame_of,
)
from adaptlab_worker.trainer.scratch import SlotFolders
from adaptlab_worker.trainer.shared_memory import SharedMemoryWatch
from adaptlab_worker.trainer.trainer_groups import TrainerGroup, TrainerGroups
from adaptlab_worker.trainer.trainer_output import TrainerOutput

LOOK_SECONDS = 0.1
PULSES_IN_SILENCE = 6
ALLOWED_GROWTH = 2 * 2**30  # bytes beyond the size when ready; a leak, not a larger model
PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CC", "XDG_CACHE_HOME"),
        *("ADAPTLAB_COMPILE", "COVERAGE_PROCESS_START", FORMAT_VARIABLE, LEVEL_VARIABLE),
    }
)
PASSED_ON_PREFIXES = (
    *("LC_", "PYTHON", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCH", "PYTORCH_"),
    *("CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "TRITON_"),
)
"""What torch and its libraries read. A list of what may pass, since nobody can list all names
of secrets in an environment."""
PINNING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")
"""With them, OpenMP pins its threads one by one, by a call that can pin other processes and is
refused (`system_calls`); it ends the process then."""
CACHES = ("XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
MULTI_PROCESS_SERVICE = "CUDA_MPS_PIPE_DIRECTORY"
"""If it is set, trainers share a card through a server, which listens on a socket there."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainerOptions:
    """The options of trainers.

    Attributes:
        threads: processor threads for torch; None for torch's choice.
        ready_seconds: the limit on loading torch and warming up.
        silence_seconds: silence of the worker after which a trainer exits.
        runner: the function that executes runs, as `module:function`; None for the engine.
        limits: the limits of a trainer.
        user: the user as which it runs; None for the worker's.
        passed_on: further environment variables to pass on.
        memory_kills: the kernel's count of processes killed because memory ran out.
        groups: the place of their control groups; None for none.
    """

    threads: int | None = None
    ready_seconds: float = 120.0
    silence_seconds: float = 60.0
    runner: str | None = None
    limits: TrainerLimits = field(
        default_factory=lambda: TrainerLimits(memory_bytes=machine_memory())
    )
    user: TrainerUser | None = None
    passed_on: tuple[str, ...] = ()
    memory_kills: MemoryKills = field(default_factory=MemoryKills)
    groups: TrainerGroups | None = None


class TrainerProcess:
    """A running trainer, which leads its own session.

    The thread that starts it must live as long as the worker: Linux treats the end of the thread
    that forked as the death of the parent.

    Args:
        options: the options of trainers.
        folders: its slot's; None for folders of its own, removed when it is closed.

    Attributes:
        wake: ends the wait in `receive`; any thread may call it.
    """

    def __init__(self, options: TrainerOptions, folders: SlotFolders | None = None) -> None:
        self._options = options
        self._borrowed = folders
        self._folders = folders or SlotFolders(Path(tempfile.mkdtemp(prefix="adaptlab-trainer-")))
        if options.user is not None:
            self._folders.give_to(options.user.user, options.user.group)
        self._started = time.monotonic()
        ours, theirs = Pipe(duplex=True)
        self._pipe: Connection[Any, Any] = ours
        self._reader = MessageReader()
        self._size_when_ready = 0
        self.is_ready = False
        self._output = TrainerOutput()
        self._control_group = options.groups and options.groups.create(options.limits)
        with theirs:
            self._process = subprocess.Popen(
                _command(theirs.fileno(), options, self._folders, self._control_group),
                stdin=subprocess.DEVNULL,
                stdout=self._output.writable,
                stderr=self._output.writable,
                pass_fds=(theirs.fileno(),),
                env=trainer_environment(os.environ, options, self._folders.temporary),
                start_new_session=True,
            )
        self._output.start(self._process.pid)
        self._sending = threading.Lock()
        # Kept: the pipe's own `poll` creates one each time, which costs as much as a message.
        self._has_more = select.poll()
        self._has_more.register(ours, select.POLLIN)
        self.wake = Wake()
        self._has_more.register(self.wake, select.POLLIN)
        self._takes_more = select.poll()
        self._takes_more.register(ours, select.POLLOUT)
        self._closed = threading.Event()
        # A separate thread, because the one that follows the run may wait for disk or database.
        self._pulse = threading.Thread(target=self._say_still_here, name="pulse", daemon=True)
        self._pulse.start()
        limits = options.limits
        self._sharing = SharedMemoryWatch(self.pid, limits.memory_bytes, self._end_group)
        if limits.shared_memory:
            self._sharing.start()

    @property
    def pid(self) -> int:
        """The process id, which is also that of its session and process group."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Return True if the process still runs."""
        return self._process.poll() is None

    @property
    def memory_kills(self) -> MemoryKills:
        """The kernel's count of memory kills, shared by the worker's trainers."""
        return self._options.memory_kills

    def await_ready(self, abandoned: Callable[[], bool]) -> bool:
        """Wait until runs can be sent; return False if abandoned first.

        Raises:
            TrainerGone: it ended, or was too slow and has been killed.
        """
        while not self.is_ready and not abandoned():
            if isinstance(self.receive(LOOK_SECONDS), Ready):
                self.is_ready = True
                self._size_when_ready = resident_bytes(self.pid)
            elif time.monotonic() > self._started + self._options.ready_seconds:
                self.kill()
                raise TrainerGone(f"was not ready after {self._options.ready_seconds:.0f} s")
        return self.is_ready

    def run_folder(self, scratch: Path) -> Path:
        """Return the output folder of an attempt's run, which may not exist yet."""
        return self._folders.run_folder(scratch)

    def make_run_folder(self, scratch: Path) -> Path:
        """Create the output folder of an attempt's run.

        Call it when all inputs are in `scratch`, which a trainer of another user can only read.
        """
        folder = self.run_folder(scratch)
        folder.mkdir(mode=0o700)
        user = self._options.user
        if user is not None and user.user != os.geteuid():
            scratch.chmod(0o711)
            for path in scratch.rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o444)
            os.chown(folder, user.user, user.group)
        return folder

    def send(self, request: Request) -> None:
        """Send a request.

        Raises:
            TrainerGone: the process has ended.
        """
        try:
            with self._sending:
                self._pipe.send_bytes(frame_of(request))
        except OSError as error:
            raise self._gone() from error

    def tell(self, request: Request) -> None:
        """Send a request unless the pipe is full.

        A trainer that no longer reads must not block the thread that wants to stop it. Raises
        `TrainerGone`.
        """
        try:
            with self._sending:
                if self._takes_more.poll(0):
                    self._pipe.send_bytes(frame_of(request))
        except OSError as error:
            raise self._gone() from error

    def receive(self, seconds: float) -> Message | None:
        """Return the next message; None after the time limit or a call of `wake`.

        Raises:
            TrainerGone: the process has ended, or violated the protocol and was killed.
        """
        try:
            ready = {descriptor for descriptor, _ in self._has_more.poll(1000 * seconds)}
            if self.wake.fileno() in ready:
                self.wake.forget()
            if self._pipe.fileno() not in ready:
                return None
            return self._reader.read(self._pipe.recv_bytes(LARGEST_FRAME))
        except (EOFError, OSError) as error:
            raise self._gone() from error
        except ValidationError as error:
            self.kill()
            raise TrainerGone(f"sent what is no message: {error}") from error

    def kill(self) -> None:
        """Kill the process and its children; return when it is gone."""
        self._end_group()
        self._process.wait()

    def close(self) -> None:
        """Kill the process and close the pipe."""
        self._closed.set()
        self._sharing.close()
        self.kill()
        if self._control_group is not None:
            self._control_group.remove()
        self._pulse.join(timeout=1)
        self._output.close()
        self._pipe.close()
        self.wake.close()
        self._folders.forget_trainer()
        if self._borrowed is None:
            shutil.rmtree(self._folders.given.parent, ignore_errors=True)

    def has_outgrown(self) -> bool:
        """Return True if its memory grew so much that it should be replaced."""
        return resident_bytes(self.pid) > self._size_when_ready + ALLOWED_GROWTH

    def _end_group(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            log.debug("trainer %d was gone already", self._process.pid)

    def _say_still_here(self) -> None:
        while not self._closed.wait(self._options.silence_seconds / PULSES_IN_SILENCE):
            try:
                self.tell(StillHere())
            except TrainerGone:
                return  # the thread that follows the run will notice

    def _gone(self) -> TrainerGone:
        """Return how the process ended; its pipe closes just before its exit."""
        try:
            status = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.kill()
            return TrainerGone("closed its pipe")
        if self._sharing.excess is not None:
            return self._shared_too_much(self._sharing.excess)
        if self._control_group is not None and self._control_group.ran_out_of_memory():
            return self._used_too_much()
        if status < 0:
            return TrainerGone(f"was killed by {signal.Signals(-status).name}", by_signal=-status)
        return TrainerGone(f"exited with status {status}")

    def _shared_too_much(self, size: int) -> TrainerGone:
        most = self._options.limits.memory_bytes
        return TrainerGone(
            f"shared {size // 2**20:,} MiB of memory between its processes, and the limit for all "
            f"of its memory is {most // 2**20:,} MiB (ADAPTLAB_TRAINER_MEMORY_BYTES). Make the job "
            "smaller, or raise the limit. The trainer was ended",
            exceeded_memory=True,
        )

    def _used_too_much(self) -> TrainerGone:
        most = self._options.limits.memory_bytes
        return TrainerGone(
            f"was killed with all of its processes, because together they needed more than the "
            f"{most // 2**20:,} MiB of memory that they may use (ADAPTLAB_TRAINER_MEMORY_BYTES), "
            "or than the machine had. Make the job smaller, or raise the limit. It was ended",
            exceeded_memory=True,
        )


def trainer_environment(
    given: Mapping[str, str], options: TrainerOptions, temporary: Path | None = None
) -> dict[str, str]:
    """Return a trainer's environment, without the worker's secrets.

    `temporary` is its folder for temporary files and caches.
    """
    kept = {
        name: value
        for name, value in given.items()
        if name in PASSED_ON or name in options.passed_on or name.startswith(PASSED_ON_PREFIXES)
    }
    if can_refuse():
        kept = {name: value for name, value in kept.items() if name not in PINNING}
    if options.user is not None:
        kept |= {"HOME": options.user.home, "USER": options.user.name, "LOGNAME": options.user.name}
    if temporary is not None:
        kept["TMPDIR"] = str(temporary)
        if options.limits.files is not None:  # those of the user are closed
            kept |= dict.fromkeys(CACHES, str(temporary / "cache"))
    kept["HF_HUB_OFFLINE"] = "1"
    kept["PYTHONUNBUFFERED"] = "1"
    # The trainer shares its cores with the servers. Threads that spin while they wait made a step
    # (one layer, width 96, three seeds, two cores) 10 to 20 times slower as soon as anything else
    # ran, 24 to 100-650 ms; threads that sleep took 35 to 45 ms whatever else ran. A machine that
    # trains and does nothing else gains by OMP_WAIT_POLICY=ACTIVE in the worker's environment.
    kept.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if options.threads is not None:
        kept.setdefault("OMP_NUM_THREADS", str(options.threads))
    return kept


def resident_bytes(pid: int) -> int:
    """Return a process's resident memory; 0 if it cannot be read."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _limits(
    options: TrainerOptions, folders: SlotFolders, control_group: TrainerGroup | None
) -> TrainerLimits:
    """Return the limits of one trainer, with its user, group and folders."""
    changes: dict[str, Any] = {}
    if control_group is not None:
        changes["group"] = str(control_group.path)
    user, files = options.user, options.limits.files
    if user is not None and user.user != os.geteuid():
        changes["runs_as"] = RunsAs(user=user.user, group=user.group, passes=user.passes)
    if files is not None:
        own = (str(folders.run), str(folders.temporary))
        changes["files"] = files.model_copy(
            update={
                "readable": (*files.readable, str(folders.given)),
                "writable": (*files.writable, *own),
            }
        )
    return options.limits.model_copy(update=changes)


def _command(
    descriptor: int,
    options: TrainerOptions,
    folders: SlotFolders,
    control_group: TrainerGroup | None,
) -> list[str]:
    named = [options.runner] if options.runner else []
    limits = _limits(options, folders, control_group).model_dump_json()
    confined = ["-m", "adaptlab_worker.confinement.confined", limits]
    trainer = ["adaptlab_worker.trainer.trainer", str(descriptor), str(os.getpid())]
    return [sys.executable, *confined, *trainer, str(options.silence_seconds), *named]
