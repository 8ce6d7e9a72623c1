"""Failures of runs that the worker reports because the run cannot."""

import resource
import signal

from adaptlab.errors import InvalidSpec, is_disk_full
from adaptlab_worker.errors import TrainerGone
from adaptlab_worker.trainer.memory_kills import MemoryKills
from adaptlab_worker.trainer.protocol import Ended, FailureReason

# Others may send these; a process causes the rest, such as SIGSEGV, itself.
FROM_OUTSIDE = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM}
)


def not_begun(error: Exception) -> Ended:
    """Return the end of a run whose inputs could not be fetched."""
    reason: FailureReason = "disk_full" if is_disk_full(error) else "system_error"
    text = f"{type(error).__name__}: {error}"
    return Ended(outcome="failed", reason=reason, error=text, retry=True)  # the trainer has no part


def misplaced(error: InvalidSpec) -> Ended:
    """Return the end of a run whose folder this worker cannot reach.

    The folder is that of a model or an adapter.
    """
    message = (
        f"The worker cannot reach the folder. {error.problems[0].detail} Give every worker "
        "of the queue this folder below the same alias, and retry the job."
    )
    return Ended(outcome="failed", reason="system_error", error=message)


def trainer_gone(gone: TrainerGone, step: int, kills: MemoryKills) -> Ended:
    """Return the end of a run whose trainer died by itself."""
    message = f"The trainer {gone} at step {step}."
    if gone.exceeded_memory:
        return _failed(message, "out_of_memory")
    if gone.by_signal not in FROM_OUTSIDE:
        return _failed(message)
    if gone.by_signal == signal.SIGKILL and kills.is_there_another():
        return _failed(f"{message} {_memory_told()}", "out_of_memory")
    return _failed(message, "killed")


def _memory_told() -> str:
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # from KiB
    return (
        f"The system ran out of memory. A trainer of this worker used up to {peak:.0f} MiB. "
        "Make the job smaller, or set ADAPTLAB_MEMORY_BYTES to the memory that a run may use."
    )


def _failed(error: str, reason: FailureReason = "system_error") -> Ended:
    return Ended(outcome="failed", reason=reason, error=error, retry=True, healthy=False)
