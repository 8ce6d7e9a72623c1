"""Every bit flipped."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("inverse_binary")
class InverseBinary(PlainTask):
    """Answer with 0 for every 1 and 1 for every 0, in the input's order.

    Over a larger alphabet a digit d becomes alphabet - 1 - d, which for a power of two flips
    every bit of d. The authors' definition is not published; this one is adaptlab's.
    """

    title: ClassVar[str] = "Binary inversion"
    summary: ClassVar[str] = "Every bit of the input flipped, in the order of the input."
    reference: ClassVar[str] = "extended experiments beside Petrov, Torr, Bibi (ICLR 2024)"

    name: Literal["inverse_binary"] = "inverse_binary"
    alphabet: int = Field(default=2, ge=2, le=512)
