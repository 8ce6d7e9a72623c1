"""The digits in ascending order with a constant added."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.constant_answers import share_of_sorted
from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("sort_then_add")
class SortThenAdd(PlainTask):
    """Answer with the input digits in ascending order, with `k` added to each."""

    title: ClassVar[str] = "Sort, then add"
    summary: ClassVar[str] = "The input digits, smallest first, each with k added."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 5.2, asc+1 in table 3"

    name: Literal["sort_then_add"] = "sort_then_add"
    k: int = Field(default=1, ge=1, le=64)
    """number that is added"""

    def answer_alphabet(self) -> int:
        return self.alphabet + self.k

    def constant_answer(self) -> float:
        """Return the share of questions with the most common sorted digits."""
        return share_of_sorted(self.questions())
