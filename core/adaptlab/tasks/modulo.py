"""Every digit modulo the first."""

from typing import ClassVar, Literal

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("modulo")
class Modulo(PlainTask):
    """Answer with every input digit modulo the first; x mod 0 is x (Knuth).

    The authors' extended experiments draw digits from 1 and so never divide by zero.
    """

    title: ClassVar[str] = "Modulo the first digit"
    summary: ClassVar[str] = "The remainder of every input digit after division by the first."
    reference: ClassVar[str] = "extended experiments of Petrov, Torr, Bibi (ICLR 2024)"

    name: Literal["modulo"] = "modulo"
