"""Numeric match: the final number of an answer is the right one.

Source: Cobbe et al. (arXiv 2110.14168), whose answers end with #### and a number.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import MeanMetric, Needs, registered
from adaptlab.records.answer_forms import MARKER, AnswerForm, marked_number_in, number_in


@registered
class Numeric(MeanMetric):
    """The share of decoded answers whose final number equals the right one.

    Numbers are compared exactly. Separators of thousands (commas, apostrophes), money, per cent and
    units are left out: 72 % is 72 and not 0.72. 1e3 is 1000, and digits of full width are digits.
    3,5 and 1/2 are no numbers. An item's statistics are whether the number is right, and whether it
    also follows #### where the right answer's does.
    """

    name: ClassVar[str] = "numeric"
    title: ClassVar[str] = "Numeric match"
    meaning: ClassVar[str] = (
        "the share of answers whose number after ####, else the last one, is that of the right "
        "answer, for tasks with this metric"
    )
    needs: ClassVar[Needs] = "answers"
    columns: ClassVar[int] = 2
    reads: ClassVar[AnswerForm | None] = "number"

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        expected = number_in(right)
        if expected is None:
            raise ValueError(
                f"The right answer {right[-64:]!r} has no number at its end. Leave the record out."
            )
        reading = marked_number_in if MARKER in right else number_in
        return float(number_in(given) == expected), float(reading(given) == expected)

    def caution(self, statistics: NDArray[np.float64]) -> str | None:
        right, in_form = (int(count) for count in statistics.sum(axis=0))
        if right == in_form:
            return None
        return (
            f"{right - in_form:,} of {right:,} right numbers do not follow {MARKER} as those of "
            "the right answers do. They count, as the last numbers of their answers."
        )
