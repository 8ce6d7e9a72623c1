"""Inversion of every bit."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("inverse_binary")
class InverseBinary(PlainTask):
    """Answer with 0 for every 1 and 1 for every 0, in the order of the input.

    In a larger alphabet, a digit d becomes alphabet - 1 - d. If the alphabet is a power of two,
    this inverts every bit of d. The definition is adaptlab's; the authors' is not published.
    """

    title: ClassVar[str] = "Binary inversion"
    summary: ClassVar[str] = "Every bit of the input inverted, in the order of the input."
    reference: ClassVar[str] = "extended experiments of Petrov, Torr, Bibi (ICLR 2024)"

    name: Literal["inverse_binary"] = "inverse_binary"
    alphabet: int = Field(default=2, ge=2, le=512)
    """number of different digits"""
