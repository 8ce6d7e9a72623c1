"""The outcome of a training for each replicate."""

from dataclasses import dataclass
from typing import Self

from adaptlab.runs.events import ReplicateStatus


@dataclass
class TrainingOutcome:
    """Final losses, steps, and reasons for ending early, R entries each.

    A loss is the mean since the last curve point, None if nothing was trained. `eliminated` is the
    validation accuracy at which successive halving eliminated a replicate, else None.
    `eliminated_metric` is likewise the task's other metric, None as a whole until there is one.
    """

    final_losses: list[float | None]
    steps: list[int]
    diverged: list[bool]
    stopped: list[bool]
    eliminated: list[float | None]
    eliminated_metric: list[float | None] | None = None

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

    def eliminate(self, replicate: int, accuracy: float, metric: float | None) -> None:
        """Record the standing with which a replicate is eliminated."""
        self.eliminated[replicate] = accuracy
        if metric is not None:
            metrics = self.eliminated_metric or [None for _ in self.eliminated]
            metrics[replicate] = metric
            self.eliminated_metric = metrics

    def metric_at_rung(self, replicate: int) -> float | None:
        """Return the other metric at which a replicate was eliminated, if it was."""
        return None if self.eliminated_metric is None else self.eliminated_metric[replicate]

    def status(self, replicate: int) -> ReplicateStatus:
        """Return the replicate's status at the end of training."""
        if self.diverged[replicate]:
            return "diverged"
        if self.is_eliminated(replicate):
            return "eliminated"
        return "stopped" if self.stopped[replicate] else "completed"
