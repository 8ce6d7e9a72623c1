"""Addition of a constant to every digit."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("add")
class Add(PlainTask):
    """Answer with every input digit plus `k`, in the order of the input."""

    title: ClassVar[str] = "Add a constant"
    summary: ClassVar[str] = "Every input digit plus k, in the order of the input."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 5.2"

    name: Literal["add"] = "add"
    k: int = Field(default=1, ge=1, le=64)
    """number that is added"""

    def answer_alphabet(self) -> int:
        return self.alphabet + self.k
