"""One child process, tied to the life of the process that starts it."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from adaptlab_stack.identity import Identity
from adaptlab_stack.signs_of_life import SILENCE_SECONDS

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
WITHOUT_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
"""Not passed on. Images set it to stay small; here each process would compile all it imports."""


@dataclass(frozen=True, slots=True)
class StopStep:
    """A signal to send and the seconds to wait for its effect."""

    signal: signal.Signals
    seconds: float


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process to run, with its readiness check and the way to stop it.

    Attributes:
        ready: returns True once the process serves; called repeatedly while it starts.
        stop: signals in turn; SIGKILL to the whole process group ends every list.
        leave: signal for an end without haste, with the longest wait for it; None if there is none.
        stop_stage: processes of a lower stage have ended before those of a higher are signalled.
        parent_death_signal: signal from the kernel when the supervisor dies in any way.
        sockets: inherited file descriptors of listening sockets, with the same numbers. While a
            process with some is replaced, its successor starts before it has ended.
        start_attempts: how often it may exit before it is first ready.
        silence_seconds: longest time without a sign of life while it starts.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    ready: Callable[[], bool] = lambda: True
    stop: tuple[StopStep, ...] = (StopStep(signal.SIGTERM, 2.5),)
    leave: StopStep | None = None
    stop_stage: int = 0
    parent_death_signal: signal.Signals = signal.SIGKILL
    sockets: tuple[int, ...] = ()
    start_attempts: int = 2
    silence_seconds: float = SILENCE_SECONDS
    identity: Identity | None = None


def spawn(spec: ProcessSpec, log: Path) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, its output appended to `log`.

    Raises:
        RuntimeError: called outside the main thread. The kernel treats the end of the thread that
            forked as the death of the parent.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("supervised processes can be started only from the main thread")
    identity = spec.identity
    argv = identity.wrap(spec.argv, spec.parent_death_signal) if identity else spec.argv
    plain = identity if identity and identity.capability is None else None
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=spec.directory,
            env=dict(spec.environment),
            start_new_session=True,
            pass_fds=spec.sockets,
            user=plain.user if plain else None,
            group=plain.group if plain else None,
            extra_groups=[] if plain else None,
            # Runs after the change of user, which clears the signal.
            preexec_fn=tie_to_parent(spec.parent_death_signal),
        )


def tie_to_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """Return a function that ties a forked child to the life of its parent.

    The child calls it, and gets the signal when the parent dies. None if the kernel does not
    support this.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:
            os._exit(1)

    return tie


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the session that a process leads."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # PermissionError: raised by macOS if a group has only zombies left.
        return


def describe_exit(status: int) -> str:
    """Return an exit status in words."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"exited with status {status}"
