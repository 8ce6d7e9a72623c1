"""Text match: whether a decoded answer is the right one, as text."""

from typing import ClassVar

from adaptlab.plugins.metric import MeanMetric, Needs, registered


@registered
class TextMatch(MeanMetric):
    """The share of decoded answers that are right, without outer space.

    Unlike the score, exact match of tokens, it sees stop sequences and samples.
    """

    name: ClassVar[str] = "text_match"
    title: ClassVar[str] = "Text match"
    meaning: ClassVar[str] = (
        "the share of decoded answers that equal the right one as texts, for tasks with this metric"
    )
    needs: ClassVar[Needs] = "answers"
    counts_no_answer: ClassVar[bool] = True
    learnable_from: ClassVar[float] = 0.5

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        return (float(given.strip() == right.strip()),)
