"""Training steps at which curves have points."""

from dataclasses import dataclass
from typing import Self

from adaptlab.specs.halving import rung_steps
from adaptlab.specs.spec import ResolvedTraining

CURVE_POINTS = 200
"""Points of a loss curve, except those at its ends and at rungs."""


@dataclass(frozen=True, slots=True)
class CurveSteps:
    """The steps at which the curves of one training have points.

    Attributes:
        last: the number of steps.
        interval: the number of steps between two points of the training loss.
        validated: the steps after which the validation split is scored, at even intervals.
        rungs: the steps after which trials are compared.
    """

    last: int
    interval: int
    validated: frozenset[int]
    rungs: tuple[int, ...]

    @classmethod
    def of(cls, training: ResolvedTraining) -> Self:
        """Return the steps of a resolved training."""
        steps, count = training.steps, training.validations
        return cls(
            last=steps,
            interval=max(1, steps // CURVE_POINTS),
            validated=frozenset(-(-steps * part // count) for part in range(1, count + 1)),
            rungs=rung_steps(steps, training.halving),
        )

    def closes_window(self, step: int) -> bool:
        """Return True if the training loss has a point at `step`."""
        # A rung needs the latest loss, because replicates that diverged do not compete.
        is_end = step in (1, self.last)
        return is_end or step % self.interval == 0 or step in self.rungs

    def __contains__(self, step: int) -> bool:
        """Return True if any curve can have a point at `step`."""
        in_range = 1 <= step <= self.last
        return in_range and (self.closes_window(step) or step in self.validated)
