"""Perplexity of the right answers."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import Counts, Metric, Needs, registered

LARGEST_PERPLEXITY = 1e30
"""The perplexity of a replicate whose loss is larger or not finite."""
LARGEST_EXPONENT = 700.0
"""Of larger limits, as two seeds can have, the exponential is no number."""


@registered
class Perplexity(Metric):
    """e to the power of the mean loss of all tokens of the right answers.

    Each token comes after the right ones before it. An item's statistics are its loss in nats and
    its counted tokens. Differences are tested in nats per token, so an infinite one weighs no more
    than the limit.
    """

    name: ClassVar[str] = "perplexity"
    title: ClassVar[str] = "Perplexity"
    meaning: ClassVar[str] = (
        "e to the power of the loss of the right answers, for tasks with this metric; lower is "
        "better, comparable with the same tokeniser only"
    )
    needs: ClassVar[Needs] = "likelihood"
    columns: ClassVar[int] = 2
    limits: ClassVar[tuple[float, float]] = (1.0, LARGEST_PERPLEXITY)
    lower_is_better: ClassVar[bool] = True
    step: ClassVar[str] = "%"
    axis_unit: ClassVar[str] = "nats per token"
    axis_factor: ClassVar[float] = 1.0

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.nan_to_num(sums[..., 0] / sums[..., 1], nan=np.inf, posinf=np.inf)
        largest = math.log(LARGEST_PERPLEXITY)
        values = np.exp(np.clip(losses, 0.0, largest))
        return np.where(losses < largest, values, LARGEST_PERPLEXITY)

    def scaled(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        return -np.log(value)

    def unscaled(self, value: float) -> float:
        return math.exp(min(-value, LARGEST_EXPONENT))

    def difference(self, by: float, low: float, high: float) -> str:
        middle, least, most = map(self.unscaled, (by, high, low))
        return f"×{middle:.3g} ({least:.3g} to {most:.3g})"

    def by(self, difference: float) -> str:
        return f"×{self.unscaled(difference):.3g}"

    def of_earlier(
        self, task: Mapping[str, object], confusion: Counts | None, loss: float | None
    ) -> float | None:
        return limited_perplexity(loss) if task.get("metric") == self.name else None


def limited_perplexity(loss: float | None) -> float:
    """Return e to the power of a loss in nats, within its limits.

    It is `LARGEST_PERPLEXITY` for a loss that is not finite, also if given as None. A loss is below
    0 only by rounding, and has the perplexity 1.
    """
    if loss is None or not loss < math.log(LARGEST_PERPLEXITY):
        return LARGEST_PERPLEXITY
    return math.exp(max(loss, 0.0))
