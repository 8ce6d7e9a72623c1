"""How the replicates of a training ended."""

from dataclasses import dataclass
from typing import Self

from adaptlab.measurements.results import ReplicateStatus


@dataclass
class TrainingOutcome:
    """The last windowed loss, the steps made, and who ended early and why, [R] each.

    A loss is None where nothing was trained. `eliminated` is the validation accuracy with which
    successive halving left a replicate out, None where it did not.
    """

    final_losses: list[float | None]
    steps: list[int]
    diverged: list[bool]
    stopped: list[bool]
    eliminated: list[float | None]

    @classmethod
    def untrained(cls, replicates: int) -> Self:
        """What there is to say before the first step."""
        return cls(
            final_losses=[None] * replicates,
            steps=[0] * replicates,
            diverged=[False] * replicates,
            stopped=[False] * replicates,
            eliminated=[None] * replicates,
        )

    def has_ended(self, replicate: int) -> bool:
        """Whether a replicate is trained no more."""
        return self.diverged[replicate] or self.stopped[replicate] or self.is_eliminated(replicate)

    def is_eliminated(self, replicate: int) -> bool:
        """Whether its trial was among the worst at a rung, and so can never be chosen."""
        return self.eliminated[replicate] is not None

    def status(self, replicate: int) -> ReplicateStatus:
        """The word for it, when all is over."""
        if self.diverged[replicate]:
            return "diverged"
        if self.is_eliminated(replicate):
            return "eliminated"
        return "stopped" if self.stopped[replicate] else "completed"
