"""The digits below the first one."""

import math
from typing import ClassVar, Literal

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("filter_less_than_first")
class FilterLessThanFirst(PlainTask):
    """Answer with the input digits that are less than the first, in the input's order.

    The end token, whose id is the alphabet's size, closes the answer and fills up the rest, which
    does not count. A question that begins with its smallest digit keeps nothing: about 18 % of them
    with the default knobs, which is what an end token alone as the answer scores.
    """

    title: ClassVar[str] = "Filter by the first digit"
    summary: ClassVar[str] = "The input digits less than the first, then an end token."
    reference: ClassVar[str] = "extended experiments beside Petrov, Torr, Bibi (ICLR 2024)"

    name: Literal["filter_less_than_first"] = "filter_less_than_first"

    def answer_alphabet(self) -> int:
        return self.alphabet + 1

    def end_token(self) -> int:
        return self.alphabet

    def chance(self) -> float:
        """Guessing every token from digits and end token, for questions drawn evenly.

        After the first digit f, each of N - 1 others is below it with probability f/A and then
        takes one more guess: 1/A Σ_f 1/(A+1) (1 - f/A + f/A · 1/(A+1))^(N-1).
        """
        guessed = self.alphabet + 1
        right = ((1 - first / guessed) ** (self.length - 1) for first in range(self.alphabet))
        return sum(right) / (self.alphabet * guessed)

    def counted_length(self) -> float:
        """An end token and, of N - 1 digits drawn evenly, each that is below the first.

        Two of A digits are in order in half of the cases in which they differ:
        1 + (N - 1) · (A - 1) / 2A.
        """
        return 1 + (self.length - 1) * (self.alphabet - 1) / (2 * self.alphabet)

    def chance_loss(self) -> float:
        return math.log(self.alphabet + 1)
