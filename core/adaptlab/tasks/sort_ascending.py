"""The digits in ascending order."""

from typing import ClassVar, Literal

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("sort_ascending")
class SortAscending(PlainTask):
    """Answer with the input digits in ascending order."""

    title: ClassVar[str] = "Sort ascending"
    summary: ClassVar[str] = "The input digits, smallest first."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 5.1"

    name: Literal["sort_ascending"] = "sort_ascending"
