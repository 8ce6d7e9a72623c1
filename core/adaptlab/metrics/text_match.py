"""Text match: whether a decoded answer is the right one, as text."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import Metric, Needs, registered


@registered
class TextMatch(Metric):
    """The share of decoded answers that are right, without outer space.

    Unlike the score, exact match of tokens, it sees stop sequences and samples.
    """

    name: ClassVar[str] = "text_match"
    title: ClassVar[str] = "Text match"
    meaning: ClassVar[str] = (
        "the share of decoded answers that equal the right one as texts, for tasks with this metric"
    )
    needs: ClassVar[Needs] = "answers"
    learnable_from: ClassVar[float] = 0.5
    columns: ClassVar[int] = 1

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        return (float(given.strip() == right.strip()),)

    def summed(self, statistics: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate((statistics, np.ones_like(statistics)), axis=1)

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return sums[..., 0] / sums[..., 1]
