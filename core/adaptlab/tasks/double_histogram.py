"""Number of occurrences of every digit, a skill that no base model has."""

import math
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.constant_answers import share_of_counts
from adaptlab.plugins.task import TASKS, PlainTask, chance_of


@TASKS.register("double_histogram")
class DoubleHistogram(PlainTask):
    """Answer with the number of occurrences of every input digit.

    The vocabulary includes the count `length`: ten equal digits need token 10, which is missing in
    the vocabulary of the published code. A base model needs at least `length` + 1 tokens.
    """

    title: ClassVar[str] = "Double histogram"
    summary: ClassVar[str] = "The number of occurrences of every input digit."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 5.2, H in table 3"

    name: Literal["double_histogram"] = "double_histogram"
    length: int = Field(default=10, ge=2, le=512)  # of one digit the count is always 1
    """digits per input"""

    def answer_alphabet(self) -> int:
        return self.length + 1

    def chance(self) -> float:
        """Return the accuracy of guessing counts from 1 to the length."""
        return chance_of(self.length, self.length)

    def chance_loss(self) -> float:
        """Return the loss of guessing counts from 1 to the length."""
        return math.log(self.length)

    def constant_answer(self) -> float:
        """Return the share of questions with the most common answer."""
        return share_of_counts(self.questions())
