"""The outcome of a training for each replicate."""

from dataclasses import dataclass
from typing import Self

from adaptlab.measurements.results import ReplicateStatus


@dataclass
class TrainingOutcome:
    """Final losses, steps, and reasons for ending early, R entries each.

    A loss is the mean since the last curve point, None if nothing was trained. `eliminated` is the
    validation accuracy at which successive halving eliminated a replicate, else None.
    """

    final_losses: list[float | None]
    steps: list[int]
    diverged: list[bool]
    stopped: list[bool]
    eliminated: list[float | None]

    @classmethod
    def untrained(cls, replicates: int) -> Self:
        """Return the outcome before the first step."""
        return cls(
            final_losses=[None] * replicates,
            steps=[0] * replicates,
            diverged=[False] * replicates,
            stopped=[False] * replicates,
            eliminated=[None] * replicates,
        )

    def has_ended(self, replicate: int) -> bool:
        """Return True if a replicate is no longer trained."""
        return self.diverged[replicate] or self.stopped[replicate] or self.is_eliminated(replicate)

    def is_eliminated(self, replicate: int) -> bool:
        """Return True if its trial was eliminated, so cannot be selected."""
        return self.eliminated[replicate] is not None

    def status(self, replicate: int) -> ReplicateStatus:
        """Return the replicate's status at the end of training."""
        if self.diverged[replicate]:
            return "diverged"
        if self.is_eliminated(replicate):
            return "eliminated"
        return "stopped" if self.stopped[replicate] else "completed"
