"""The digits in reverse order."""

from typing import ClassVar, Literal

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("reverse")
class Reverse(PlainTask):
    """Answer with the input digits in reverse order."""

    title: ClassVar[str] = "Reverse"
    summary: ClassVar[str] = "The input digits, last first."
    reference: ClassVar[str] = "adaptlab; copying with another attention pattern"

    name: Literal["reverse"] = "reverse"
