"""Why a run failed, where its worker has to say so because the run itself cannot."""

import resource
import signal

from adaptlab.errors import InvalidSpec, is_disk_full
from adaptlab_worker.errors import TrainerGone
from adaptlab_worker.memory_kills import MemoryKills
from adaptlab_worker.protocol import Ended, FailureReason

# Anybody may send these; others, such as SIGSEGV, a process brings upon itself.
FROM_OUTSIDE = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM}
)


def not_begun(error: Exception) -> Ended:
    """What the run needs could not be had."""
    reason: FailureReason = "disk_full" if is_disk_full(error) else "system_error"
    return _failed(f"{type(error).__name__}: {error}", reason)


def misplaced(error: InvalidSpec) -> Ended:
    """The model folder that the server saw is not to be had by this worker."""
    told = f"The worker cannot reach the model folder. {error.problems[0].detail}"
    return Ended(outcome="failed", reason="system_error", error=told)


def trainer_gone(gone: TrainerGone, step: int, kills: MemoryKills) -> Ended:
    """The trainer died by itself: of its own doing, of too little memory, or of somebody's."""
    told = f"The trainer {gone} at step {step}."
    if gone.by_signal not in FROM_OUTSIDE:
        return _failed(told)
    if gone.by_signal == signal.SIGKILL and kills.is_there_another():
        return _failed(f"{told} {_memory_told()}", "out_of_memory")
    return _failed(told, "killed")


def _memory_told() -> str:
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # from KiB
    return (
        f"The system ran out of memory. A trainer of this worker used up to {peak:.0f} MiB. "
        "Make the job smaller, or set ADAPTLAB_MEMORY_BYTES to the memory that a run may use."
    )


def _failed(error: str, reason: FailureReason = "system_error") -> Ended:
    return Ended(outcome="failed", reason=reason, error=error, retry=True, healthy=False)
