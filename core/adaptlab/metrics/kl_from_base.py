"""Divergence of a model's next tokens from those of its base model."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import Metric, Needs, registered

LARGEST_DIVERGENCE = 1e4
"""That of a replicate whose divergence is larger or not finite, in nats per token."""


@registered
class KlFromBase(Metric):
    """KL(base || adapted) of the next token, in nats per token.

    An item's statistics are its divergence, the loss of its text in nats, its tokens and its bytes,
    so that bits per byte follow as well. Of the base model alone the divergence is 0.
    """

    name: ClassVar[str] = "kl_from_base"
    title: ClassVar[str] = "KL from the base"
    meaning: ClassVar[str] = (
        "how far the next token's distribution is from the base model's, KL(base || adapted) in "
        "nats per token, on texts that no task is about; 0 is no drift"
    )
    needs: ClassVar[Needs] = "base"
    columns: ClassVar[int] = 4
    limits: ClassVar[tuple[float, float]] = (0.0, LARGEST_DIVERGENCE)
    lower_is_better: ClassVar[bool] = True
    step: ClassVar[str] = "hundredths of a nat"
    axis_unit: ClassVar[str] = "nats per token"
    axis_factor: ClassVar[float] = 1.0

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.nan_to_num(sums[..., 0] / sums[..., 2], nan=np.inf, posinf=np.inf)
        return np.clip(values, 0.0, LARGEST_DIVERGENCE)

    def difference(self, by: float, low: float, high: float) -> str:
        return f"{-by:+.3g} ({-high:+.3g} to {-low:+.3g})"

    def by(self, difference: float) -> str:
        return f"{-difference:+.3g}"
