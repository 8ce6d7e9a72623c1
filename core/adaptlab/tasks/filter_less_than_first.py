"""The digits below the first one."""

from typing import ClassVar, Literal

from adaptlab.task import TASKS, PlainTask


@TASKS.register("filter_less_than_first")
class FilterLessThanFirst(PlainTask):
    """Answer with the input digits that are less than the first, in the input's order.

    The end token, whose id is the alphabet's size, fills the rest of the answer and counts as
    part of it. A question that begins with 0 keeps nothing: an eighth of them at eight digits,
    which is what an answer of end tokens alone scores.
    """

    title: ClassVar[str] = "Filter by the first digit"
    summary: ClassVar[str] = "The input digits less than the first, then end tokens."
    reference: ClassVar[str] = "extended experiments beside Petrov, Torr, Bibi (ICLR 2024)"

    name: Literal["filter_less_than_first"] = "filter_less_than_first"

    def answer_alphabet(self) -> int:
        return self.alphabet + 1

    def chance(self) -> float:
        """Guessing every token from digits and end token."""
        return float(self.alphabet + 1) ** -self.length
