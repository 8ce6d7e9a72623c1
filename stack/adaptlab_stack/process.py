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

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


@dataclass(frozen=True, slots=True)
class StopStep:
    """A signal to send and the seconds to wait for its effect."""

    signal: signal.Signals
    seconds: float


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to run, how to see that it is up, and how to stop it.

    Attributes:
        ready: whether the process serves already; asked again and again while it starts.
        stop: signals in turn; SIGKILL to its whole process group ends every list.
        stop_stage: processes of a lower stage are gone before those of a higher are signalled.
        parent_death_signal: what the kernel sends when the supervisor dies, however it dies.
        sockets: file descriptors of listening sockets that it inherits, by the same numbers.
        start_attempts: how often it may exit before it is first ready.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    ready: Callable[[], bool] = lambda: True
    stop: tuple[StopStep, ...] = (StopStep(signal.SIGTERM, 2.5),)
    stop_stage: int = 0
    parent_death_signal: signal.Signals = signal.SIGKILL
    sockets: tuple[int, ...] = ()
    start_attempts: int = 2
    start_seconds: float = 60.0
    identity: Identity | None = None


def spawn(spec: ProcessSpec, log: Path) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, its output appended to `log`.

    Raises:
        RuntimeError: called outside the main thread. The kernel counts the end of the thread that
            forked as the death of the parent.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("supervised processes are started from the main thread only")
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
    """What a forked child calls to get a signal when its parent dies.

    None where the kernel offers no such thing.
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
    """End whatever is left of the session that a process leads."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # PermissionError: macOS says so of a group that has only zombies left.
        return


def describe_exit(status: int) -> str:
    """An exit status in words."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"exited with status {status}"
