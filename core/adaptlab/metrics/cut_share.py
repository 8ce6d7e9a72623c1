"""The share of decoded answers that are cut by length."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import Metric, Needs, registered


@registered
class CutShare(Metric):
    """The share of decoded answers that end where no token is left.

    An item's statistic is that share of its samples. Many cut answers mean that the limit is too
    low, or that the model has not learned to end.
    """

    name: ClassVar[str] = "cut_share"
    title: ClassVar[str] = "Cut answers"
    meaning: ClassVar[str] = (
        "the share of decoded answers that end at the limit of tokens, where answers are decoded; "
        "lower is better"
    )
    needs: ClassVar[Needs] = "endings"
    columns: ClassVar[int] = 1
    lower_is_better: ClassVar[bool] = True

    def summed(self, statistics: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate((statistics, np.ones_like(statistics)), axis=1)

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return sums[..., 0] / sums[..., 1]
