"""Bits per byte of the right answers, comparable over tokenisers."""

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import Metric, Needs, registered

LARGEST_BITS = 100.0
"""The bits per byte of a replicate whose loss is larger or not finite."""


@registered
class BitsPerByte(Metric):
    """The loss of the right answers in bits, per byte of their text in UTF-8.

    An item's statistics are its loss in nats and the bytes of its answer in the dataset. The token
    that ends an answer adds to the loss and has no byte.
    """

    name: ClassVar[str] = "bits_per_byte"
    title: ClassVar[str] = "Bits per byte"
    meaning: ClassVar[str] = (
        "the loss of the right answers in bits per byte of their text, for tasks with this metric; "
        "lower is better, comparable over tokenisers"
    )
    needs: ClassVar[Needs] = "likelihood_of_text"
    columns: ClassVar[int] = 2
    limits: ClassVar[tuple[float, float]] = (0.0, LARGEST_BITS)
    lower_is_better: ClassVar[bool] = True
    compares_bases: ClassVar[bool] = True
    step: ClassVar[str] = "hundredths of a bit per byte"
    axis_unit: ClassVar[str] = "bits per byte"
    axis_factor: ClassVar[float] = 1.0

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            bits = sums[..., 0] / math.log(2) / sums[..., 1]
        return np.clip(np.nan_to_num(bits, nan=LARGEST_BITS), *self.limits)

    def difference(self, by: float, low: float, high: float) -> str:
        return f"{self.by(by)} ({self.by(high)} to {self.by(low)})"

    def by(self, difference: float) -> str:
        return f"{self.unscaled(difference):+.3f}"
