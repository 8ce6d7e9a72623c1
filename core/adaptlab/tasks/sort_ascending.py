"""The digits in ascending order."""

from typing import ClassVar, Literal

from adaptlab.plugins.constant_answers import share_of_sorted
from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("sort_ascending")
class SortAscending(PlainTask):
    """Answer with the input digits in ascending order."""

    title: ClassVar[str] = "Sort ascending"
    summary: ClassVar[str] = "The input digits, smallest first."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 5.1"

    name: Literal["sort_ascending"] = "sort_ascending"

    def constant_answer(self) -> float:
        """Return the share of questions with the most common sorted digits."""
        return share_of_sorted(self.questions())
