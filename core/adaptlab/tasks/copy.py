"""The input digits, unchanged."""

from typing import ClassVar, Literal

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("copy")
class Copy(PlainTask):
    """Answer with the input digits in their order."""

    title: ClassVar[str] = "Copy"
    summary: ClassVar[str] = "The input digits, in the order of the input."
    reference: ClassVar[str] = "adaptlab; the simplest task with attention by position"

    name: Literal["copy"] = "copy"
