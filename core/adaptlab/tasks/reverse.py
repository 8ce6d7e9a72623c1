"""The digits from the last to the first."""

from typing import ClassVar, Literal

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("reverse")
class Reverse(PlainTask):
    """Answer with the input digits in the opposite order."""

    title: ClassVar[str] = "Reverse"
    summary: ClassVar[str] = "The input digits, last first."
    reference: ClassVar[str] = "adaptlab; copying with another pattern of attention"

    name: Literal["reverse"] = "reverse"
