"""How often every digit occurs: a task that no pretrained skill contains."""

import math
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.task import TASKS, PlainTask, chance_of


@TASKS.register("double_histogram")
class DoubleHistogram(PlainTask):
    """Answer for every input digit with the number of its occurrences in the input.

    The vocabulary holds a count of `length`: ten equal digits need token 10, which the published
    code's vocabulary of ten lacks. A base model for this task needs at least `length` + 1 tokens.
    """

    title: ClassVar[str] = "Double histogram"
    summary: ClassVar[str] = "For every input digit, how often it occurs in the input."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 5.2, H in table 3"

    name: Literal["double_histogram"] = "double_histogram"
    length: int = Field(default=10, ge=2, le=512)  # of one digit the count is always 1

    def answer_alphabet(self) -> int:
        return self.length + 1

    def chance(self) -> float:
        """Guessing every count from 1 to the length."""
        return chance_of(self.length, self.length)

    def chance_loss(self) -> float:
        """Guessing from the counts from 1 to the length."""
        return math.log(self.length)
