"""The digits that are less than the first."""

import math
from typing import ClassVar, Literal

from adaptlab.plugins.task import TASKS, PlainTask


@TASKS.register("filter_less_than_first")
class FilterLessThanFirst(PlainTask):
    """Answer with the input digits that are less than the first, in order.

    The end token, whose id is the size of the alphabet, ends the answer and pads the rest, which
    does not count. The answer to a question that begins with its smallest digit is empty. With the
    default options, this applies to about 18 % of questions, which is the score of a model that
    always answers with an end token.
    """

    title: ClassVar[str] = "Filter by the first digit"
    summary: ClassVar[str] = "The input digits less than the first, then an end token."
    reference: ClassVar[str] = "extended experiments of Petrov, Torr, Bibi (ICLR 2024)"

    name: Literal["filter_less_than_first"] = "filter_less_than_first"

    def answer_alphabet(self) -> int:
        return self.alphabet + 1

    def end_token(self) -> int:
        return self.alphabet

    def chance(self) -> float:
        """Return the accuracy of guessing from digits and end token.

        Questions are drawn uniformly. Each of the N - 1 digits after the first digit f is below it
        with probability f/A, and then needs another guess. The accuracy is
        1/A Σ_f 1/(A+1) (1 - f/A + f/A · 1/(A+1))^(N-1).
        """
        guessed = self.alphabet + 1
        right = ((1 - first / guessed) ** (self.length - 1) for first in range(self.alphabet))
        return sum(right) / (self.alphabet * guessed)

    def counted_length(self) -> float:
        """Return the mean number of digits below the first, plus an end token.

        Questions are drawn uniformly. Two of A digits are in order in half of the cases in which
        they differ, so the length is 1 + (N - 1) · (A - 1) / 2A.
        """
        return 1 + (self.length - 1) * (self.alphabet - 1) / (2 * self.alphabet)

    def chance_loss(self) -> float:
        return math.log(self.alphabet + 1)
